"""Order of champions, computed from `champion/history.jsonl`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tasks.promotion_records import Succession


def champions_in_line(history: Sequence[Succession]) -> tuple[list[str], dict[str, str]]:
    """The champions in order, the current one last, and version → reason of those that were rolled back.

    A rollback takes back every champion after the one that it restores; a version that is put back comes last.
    """
    champions: list[str] = []
    rolled_back: dict[str, str] = {}
    for step in history:
        if step.how == "rolled back" and step.version in champions:
            kept = champions.index(step.version) + 1
            rolled_back |= dict.fromkeys(champions[kept:], step.reason)
            champions = champions[:kept]
        else:
            champions = [*(version for version in champions if version != step.version), step.version]
            rolled_back.pop(step.version, None)
    return champions, rolled_back


def utc_now() -> str:
    """The current time to the second, as in `Succession.time`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
