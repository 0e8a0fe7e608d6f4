"""Who is champion after whom, as `champion/history.jsonl` tells it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tasks.records import Succession


def fallback_order(history: Sequence[Succession]) -> list[str]:
    """Versions in the order in which they are fallen back on: the champion last, before it the one that a rollback
    puts in its place, and so on. [] of no history."""
    champions: list[str] = []
    for step in history:
        if not champions and step.replaced:
            champions = [step.replaced]  # a champion of before there was a history
        if step.how == "rolled back" and step.version in champions:
            champions = champions[: champions.index(step.version) + 1]
        elif step.how == "rolled back":
            champions = [step.version]
        else:
            champions = [*(version for version in champions if version != step.version), step.version]
    return champions


def rolled_back_versions(history: Sequence[Succession]) -> dict[str, str]:
    """Version → the reason of the rollback that took it back; those that were put back in their place are not in it."""
    taken: dict[str, str] = {}
    for end, step in enumerate(history, start=1):
        if step.how == "rolled back":
            still = fallback_order(history[:end])
            taken |= {version: step.reason for version in fallback_order(history[: end - 1]) if version not in still}
        taken.pop(step.version, None)
    return taken


def utc_now() -> str:
    """The time of a succession, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
