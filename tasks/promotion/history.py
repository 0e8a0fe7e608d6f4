"""Order of champions, computed from `champion/history.jsonl`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tasks.records import Succession


def fallback_order(history: Sequence[Succession]) -> list[str]:
    """Versions in reverse order of fallback: the champion last, before it the one that a rollback restores, and so on.

    [] without a history.
    """
    champions: list[str] = []
    for step in history:
        if not champions and step.replaced:
            champions = [step.replaced]  # a champion older than the history
        if step.how == "rolled back" and step.version in champions:
            champions = champions[: champions.index(step.version) + 1]
        elif step.how == "rolled back":
            champions = [step.version]
        else:
            champions = [*(version for version in champions if version != step.version), step.version]
    return champions


def rolled_back_versions(history: Sequence[Succession]) -> dict[str, str]:
    """Version → reason of its rollback, for versions that were rolled back and not restored since."""
    reasons: dict[str, str] = {}
    for end, step in enumerate(history, start=1):
        if step.how == "rolled back":
            remaining = fallback_order(history[:end])
            before = fallback_order(history[: end - 1])
            reasons |= {version: step.reason for version in before if version not in remaining}
        reasons.pop(step.version, None)
    return reasons


def utc_now() -> str:
    """The current time to the second, as in `Succession.time`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
