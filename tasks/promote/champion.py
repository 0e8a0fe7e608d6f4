"""The `champion/` folder: the best promoted policy, with the evaluation and decision that promoted it.

    champion/
      champion.json     its version, and the digest of the test problems behind `outcomes.jsonl`
      policy/           a copy of the policy folder
      outcomes.jsonl    its result on each test problem
      promotion.json    the decision that made it champion
      profile.json      of the problems that it learnt from; older champions have none
      kept.jsonl        the test problems that it was promoted on, and those of earlier champions (`promotion.keep`)
      history.jsonl     all changes of champion with time and reason, the latest last
      previous/1/ …     the first six of these for earlier champions, the latest first, for rollbacks

It outlives runs, so DVC does not track it. It is replaced atomically: a process that is killed leaves the old champion
or the new one.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tasks.artifacts import (
    atomic_folder,
    copy_folder,
    open_file_itself,
    read_json,
    read_jsonl,
    remove_leftovers,
    restore_folder,
    write_json,
    write_jsonl,
)
from tasks.environments.lookup import FIRST
from tasks.errors import GraftError
from tasks.model.checkpoints.version import verify_policy
from tasks.records.promotion import Champion, KeptSet, Promotion, Succession
from tasks.statistics.problem_profile import ProblemProfile

PREVIOUS = "previous"
HISTORY = "history.jsonl"
PROFILE = "profile.json"
KEPT = "kept.jsonl"
CHAMPION_FILES = ("champion.json", "policy", "outcomes.jsonl", "promotion.json", PROFILE, KEPT)
PREVIOUS_LIMIT = 3  # earlier champions kept with their weights; the history lists all
SHORTEST = 4
"""Fewest characters by which a version is named, as for git's commits."""


def read_champion(folder: Path, environment: str) -> Champion | None:
    """The current champion, None if there is none yet.

    Raises GraftError if the folder is damaged or its policy was trained in another environment.
    """
    if not folder.exists():
        return None
    champion = current_champion(folder)
    trained_in = champion.environment or FIRST
    if trained_in != environment:
        raise GraftError(
            f"{folder}: its policy was trained in environment {trained_in}, this run's is {environment}; "
            f"move the folder away, or set environment to {trained_in}"
        )
    return champion


def current_champion(folder: Path) -> Champion:
    """The current champion, of any environment. Raises GraftError if there is none or it is damaged."""
    if not folder.exists():
        raise GraftError(f"{folder}: there is no champion yet; graft retrain promotes the first policy that is better")
    if not (folder / "champion.json").exists():
        raise GraftError(f"{folder}: holds no champion.json; move the folder away to start without a champion")
    return read_json(folder / "champion.json", Champion)


def verify_champion(place: Path, version: str) -> None:
    """Raise GraftError unless the folder of a champion, or of one that is to become it, holds this policy undamaged."""
    named = {
        "champion.json": read_json(place / "champion.json", Champion).version,
        "promotion.json": read_json(place / "promotion.json", Promotion).version,
    }
    for name, found in named.items():
        if found != version:
            raise GraftError(f"{place / name}: is of policy {found}, not of {version}; restore the folder from a copy")
    verify_policy(place / "policy", version)


def read_profile(folder: Path) -> ProblemProfile | None:
    """The problems that the current champion learnt from; None without a champion, and of an older one."""
    return read_json(folder / PROFILE, ProblemProfile) if (folder / PROFILE).exists() else None


def read_kept(folder: Path) -> list[KeptSet]:
    """The kept sets, the latest first; of an older champion none."""
    return read_jsonl(folder / KEPT, KeptSet) if (folder / KEPT).exists() else []


def read_history(folder: Path) -> list[Succession]:
    """All changes of champion, the latest last; [] before the first."""
    return read_jsonl(folder / HISTORY, Succession) if (folder / HISTORY).exists() else []


def previous_champions(folder: Path) -> dict[str, Path]:
    """Version → folder of the earlier champions that a rollback can restore, the latest first."""
    records = sorted((folder / PREVIOUS).glob("*/champion.json"))
    return {read_json(record, Champion).version: record.parent for record in records}


class Challenger(NamedTuple):
    """A policy that is better than the champion, as a run leaves it: what the files of a champion are made from."""

    policy: Path
    outcomes: Path
    decision: Promotion
    record: Champion
    profile: ProblemProfile  # of the problems that it learnt from
    kept: Sequence[KeptSet] = ()  # its test problems and those of earlier champions

    def write(self, folder: Path) -> None:
        """Copy it into an empty folder."""
        copy_folder(self.policy, folder / "policy")
        shutil.copyfile(self.outcomes, folder / "outcomes.jsonl")
        write_json(folder / "promotion.json", self.decision)
        write_json(folder / "champion.json", self.record)
        write_json(folder / PROFILE, self.profile)
        write_jsonl(folder / KEPT, self.kept)


def promote_policy(folder: Path, challenger: Challenger, time: str) -> None:
    """Make a policy the champion atomically; the old champion goes to `previous/`."""
    version, reason = challenger.record.version, challenger.decision.reason
    with champion_lock(folder):
        old = champion_version(folder)
        step = Succession(version=version, replaced=old, how="promoted", reason=reason, time=time)
        replace_champion(folder, challenger.write, step)


def champion_version(folder: Path) -> str | None:
    """The version of the current champion, None if there is none yet."""
    return current_champion(folder).version if folder.exists() else None


@contextmanager
def champion_lock(folder: Path) -> Iterator[None]:
    """Exclusive lock on the champion; repairs what a killed writer left."""
    lock = folder.parent / ".graft" / "champion.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "a", opener=open_file_itself) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        restore_folder(folder)
        remove_leftovers(folder)
        yield


def replace_champion(folder: Path, fill: Callable[[Path], None], step: Succession) -> None:
    """Replace the champion by one that `fill` writes into an empty folder. Call within `champion_lock`."""
    others = {} if step.replaced is None else {step.replaced: folder, **previous_champions(folder)}
    places = [place for version, place in others.items() if version != step.version][:PREVIOUS_LIMIT]
    with atomic_folder(folder) as new:
        fill(new)
        for number, place in enumerate(places, start=1):
            copy_champion(place, new / PREVIOUS / str(number))
        write_jsonl(new / HISTORY, [*read_history(folder), step])


def copy_champion(place: Path, target: Path) -> None:
    """Hard-link or copy the files of a current or earlier champion into another folder."""
    for name in (name for name in CHAMPION_FILES if (place / name).exists()):
        copy_folder(place / name, target / name, link=True)


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


def roll_back(folder: Path, version: str | None, reason: str, time: str) -> Succession:
    """Restore the previous champion, or the one whose version starts with `version`, atomically.

    The replaced one stays in `previous/`, so that it can be restored the same way. Raises GraftError if there is none
    to restore, `version` is too short or its policy is damaged.
    """
    check_beginning(version)
    with champion_lock(folder):
        now, others = current_champion(folder).version, previous_champions(folder)
        chosen = _before(folder, others) if version is None else _named(folder, others, now, version)
        place = others[chosen]
        verify_champion(place, chosen)
        step = Succession(version=chosen, replaced=now, how="rolled back", reason=reason, time=time)
        replace_champion(folder, lambda new: copy_champion(place, new), step)
    return step


def check_beginning(version: str | None) -> None:
    """Raise GraftError if the beginning of a version, None for none, is too short to name one."""
    if version is not None and len(version) < SHORTEST:
        raise GraftError(
            f"{version!r}: too short for a version; give {SHORTEST} characters of it or more, graft champion lists them"
        )


def _before(folder: Path, others: dict[str, Path]) -> str:
    """The champion before the current one."""
    champions, rolled_back = champions_in_line(read_history(folder))
    kept = [version for version in champions[:-1] if version in others]
    if kept:
        return kept[-1]
    also = f"; rolled back and still here: {', '.join(rolled_back)}" if rolled_back else ""
    raise GraftError(f"{folder}: no champion before this one is kept{also}; graft champion lists them")


def _named(folder: Path, others: dict[str, Path], now: str, version: str) -> str:
    meant = [other for other in others if other.startswith(version)]
    if len(meant) == 1:
        return meant[0]
    if now.startswith(version):
        raise GraftError(f"{version}: is the champion already; name another, or none for the one before")
    known = ", ".join(others) or "none"
    raise GraftError(f"{version}: no champion that {folder / 'previous'} keeps; it has {known}: name one of these")
