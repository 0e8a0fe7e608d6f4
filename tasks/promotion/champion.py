"""The `champion/` folder: the best promoted policy and what it was promoted on.

    champion/
      champion.json     its version, and the digest of the test problems behind `outcomes.jsonl`
      policy/           a copy of the policy folder
      outcomes.jsonl    how each test problem went
      promotion.json    the decision that made it champion
      history.jsonl     who followed whom as champion, when and why, the latest last
      previous/1/ …     the first four of these of others that were champion, the last one first: a promotion can be
                        taken back, and that, too

It outlives runs and belongs to none, so DVC does not track it. It changes as a whole: who is killed meanwhile leaves
the old champion or the new one.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.artifacts import (
    atomic_folder,
    copy_folder,
    read_json,
    read_jsonl,
    remove_leftovers,
    restore_folder,
    write_json,
    write_jsonl,
    write_text,
)
from tasks.errors import GraftError
from tasks.records import Champion, Succession

PREVIOUS = "previous"
HISTORY = "history.jsonl"
CHAMPION_FILES = ("champion.json", "policy", "outcomes.jsonl", "promotion.json")
PREVIOUS_LIMIT = 3  # others, with their weights; the history names all


def read_champion(folder: Path, environment: str) -> Champion | None:
    """The present champion, None where there is none yet.

    Raises GraftError where the folder is damaged, or where its policy writes for another environment: the two cannot
    take each other's place.
    """
    if not folder.exists():
        return None
    champion = current_champion(folder)
    if champion.environment != environment:
        raise GraftError(
            f"{folder}: its policy was trained in environment {champion.environment}, this run's is {environment}; "
            f"move the folder away, or set environment to {champion.environment}"
        )
    return champion


def current_champion(folder: Path) -> Champion:
    """The present champion, whatever its environment. Raises GraftError where there is none, or a damaged one."""
    if not folder.exists():
        raise GraftError(f"{folder}: there is no champion yet; graft retrain promotes the first policy that is better")
    if not (folder / "champion.json").exists():
        raise GraftError(f"{folder}: holds no champion.json; move the folder away to start without a champion")
    return read_json(folder / "champion.json", Champion)


def read_history(folder: Path) -> list[Succession]:
    """Who followed whom, the latest last; [] where the champion is of before this was written down."""
    return read_jsonl(folder / HISTORY, Succession) if (folder / HISTORY).exists() else []


def previous_champions(folder: Path) -> dict[str, Path]:
    """Version → folder of the others that can be put in the champion's place, the last champion first."""
    previous = folder / PREVIOUS
    one = (previous / "champion.json").exists()  # as it was when only one was kept
    folders = [previous] if one else sorted(found.parent for found in previous.glob("*/champion.json"))
    return {read_json(found / "champion.json", Champion).version: found for found in folders}


def promote_policy(
    folder: Path, policy: Path, outcomes: Path, decision: str, champion: Champion, reason: str, time: str
) -> None:
    """Put a policy in the champion's place, whole or not at all; the old champion goes to `previous/`.

    `policy` is the folder and `outcomes` the file to copy, `decision` the text of `promotion.json`.
    """

    def fill(new: Path) -> None:
        copy_folder(policy, new / "policy")
        shutil.copyfile(outcomes, new / "outcomes.jsonl")
        write_text(new / "promotion.json", decision)
        write_json(new / "champion.json", champion)

    with champion_lock(folder):
        old = current_champion(folder).version if folder.exists() else None
        step = Succession(version=champion.version, replaced=old, how="promoted", reason=reason, time=time)
        replace_champion(folder, fill, step)


@contextmanager
def champion_lock(folder: Path) -> Iterator[None]:
    """One writer of the champion at a time, whoever started it; what one that was killed left is put in order."""
    lock = folder.parent / ".graft" / "champion.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        restore_folder(folder)
        remove_leftovers(folder)
        yield


def replace_champion(folder: Path, fill: Callable[[Path], None], step: Succession) -> None:
    """A new champion, which `fill` writes into an empty folder, in the place of the old one. To be called `champion_lock`."""
    others = {} if step.replaced is None else {step.replaced: folder, **previous_champions(folder)}
    places = [place for version, place in others.items() if version != step.version][:PREVIOUS_LIMIT]
    with atomic_folder(folder) as new:
        fill(new)
        for number, place in enumerate(places, start=1):
            copy_champion(place, new / PREVIOUS / str(number))
        write_jsonl(new / HISTORY, [*read_history(folder), step])


def copy_champion(place: Path, target: Path) -> None:
    """A champion's own files, those of the present one or of a `previous_champions` one, as files of another folder."""
    for name in CHAMPION_FILES:
        copy_folder(place / name, target / name, link=True)
