"""Rollback of a promotion: an earlier champion becomes the champion again."""

from pathlib import Path

from tasks.errors import GraftError
from tasks.model.version import verify_policy
from tasks.promote.champion import (
    champion_lock,
    copy_champion,
    current_champion,
    previous_champions,
    read_history,
    replace_champion,
)
from tasks.promote.history import champions_in_line
from tasks.promotion_records import Succession


def roll_back(folder: Path, version: str | None, reason: str, time: str) -> Succession:
    """Restore the previous champion, or the one whose version starts with `version`, atomically.

    The replaced one stays in `previous/`, so that it can be restored the same way. Raises GraftError if there is none
    to restore or its policy is damaged.
    """
    with champion_lock(folder):
        now, others = current_champion(folder).version, previous_champions(folder)
        chosen = _named(folder, others, now, version) if version else _before(folder, others)
        place = others[chosen]
        verify_policy(place / "policy", chosen)
        step = Succession(version=chosen, replaced=now, how="rolled back", reason=reason, time=time)
        replace_champion(folder, lambda new: copy_champion(place, new), step)
    return step


def _before(folder: Path, others: dict[str, Path]) -> str:
    """The champion before the current one."""
    champions, rolled_back = champions_in_line(read_history(folder))
    found = [version for version in champions[:-1] if version in others]
    if found:
        return found[-1]
    also = f"; rolled back and still here: {', '.join(rolled_back)}" if rolled_back else ""
    raise GraftError(f"{folder}: no champion before this one is kept{also}; graft champion lists them")


def _named(folder: Path, others: dict[str, Path], now: str, version: str) -> str:
    found = [other for other in others if other.startswith(version)]
    if len(found) == 1:
        return found[0]
    if now.startswith(version):
        raise GraftError(f"{version}: is the champion already; name another, or none for the one before")
    known = ", ".join(others) or "none"
    raise GraftError(f"{version}: no champion that {folder / 'previous'} keeps; it has {known}: name one of these")
