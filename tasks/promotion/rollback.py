"""Taking a promotion back: an earlier champion in the champion's place again."""

from pathlib import Path

from tasks.errors import GraftError
from tasks.model.version import check_whole
from tasks.promotion.champion import (
    champion_lock,
    copy_champion,
    current_champion,
    previous_champions,
    read_history,
    replace_champion,
)
from tasks.promotion.history import fallback_order, rolled_back_versions
from tasks.records import Succession, SuccessionKind


def roll_back(folder: Path, version: str | None, reason: str, time: str) -> Succession:
    """Put the champion before the present one in its place, or the one that `version`, or a unique beginning of it,
    names; all or nothing.

    The one that is taken back stays in `previous/`, so that it can be put back the same way, which is `reinstated`.
    Raises GraftError where there is none to go back to, or its policy is damaged.
    """
    with champion_lock(folder):
        now = current_champion(folder).version
        others, history = previous_champions(folder), read_history(folder)
        taken = rolled_back_versions(history)
        chosen = (
            _named(folder, others, now, version) if version else _before(folder, others, fallback_order(history), taken)
        )
        place = others[chosen]
        check_whole(place / "policy", chosen)
        how: SuccessionKind = "reinstated" if chosen in taken else "rolled back"
        step = Succession(version=chosen, replaced=now, how=how, reason=reason, time=time)
        replace_champion(folder, lambda new: copy_champion(place, new), step)
    return step


def _before(folder: Path, others: dict[str, Path], fallback_order: list[str], taken: dict[str, str]) -> str:
    """The champion that the present one replaced; of a folder without history the one that is there."""
    found = [version for version in reversed(fallback_order[:-1]) if version in others]
    found += [version for version in others if version not in taken and version not in fallback_order]
    if found:
        return found[0]
    also = f"; taken back and still here: {', '.join(taken)}" if taken else ""
    raise GraftError(f"{folder}: no champion before this one is kept{also}; graft champion lists them")


def _named(folder: Path, others: dict[str, Path], now: str, version: str) -> str:
    found = [other for other in others if other.startswith(version)]
    if len(found) == 1:
        return found[0]
    if now.startswith(version):
        raise GraftError(f"{version}: is the champion already; name another, or none for the one before")
    known = ", ".join(others) or "none"
    raise GraftError(f"{version}: no champion that {folder / 'previous'} keeps; it has {known}: name one of these")
