"""The `latest/` folder: the policy that the next scheduled run starts from, while that of `champion/` is served.

    latest/
      latest.json    its version, and the champion that it was compared with
      policy/        a copy of its folder
      first/         before there is a champion: the policy that the runs began with, which they are compared with

A scheduled run ends with it. The run's policy is the next latest, better than the champion or not: small gains add up
over the nights, of which none alone is more than chance. One that is worse than the champion by more than chance is
left behind, and the champion is copied here in its place. Like `champion/` it is not tracked by DVC and is replaced
atomically.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tasks.artifacts import atomic_folder, copy_folder, read_json, remove_leftovers, restore_folder, write_json
from tasks.layout import Layout
from tasks.promote.champion import champion_lock, champion_version, champions_in_line, current_champion, read_history
from tasks.records.policy import Lineage
from tasks.records.promotion import Latest, Promotion, Succession

RECORD = "latest.json"


def is_left_behind(decision: Promotion, history: Sequence[Succession]) -> bool:
    """Whether later runs start from the champion again: the policy is worse by more than chance, has lost a measure
    that the environment's gate keeps, or was champion and was taken back by a rollback. `history`: of the champions."""
    return decision.worse or decision.version in champions_in_line(history)[1]


def read_latest(layout: Layout) -> Latest | None:
    """The policy to start from; None before the first scheduled run, and once another policy became champion, which is
    then started from. Raises GraftError if a record is damaged."""
    path = layout.latest / RECORD
    latest = read_json(path, Latest) if path.exists() else None
    return latest if latest and latest.champion == champion_version(layout.champion) else None


def keep_latest(layout: Layout, decision: Promotion, environment: str) -> None:
    """Replace `latest/` after a run: by its policy, or else by the champion, before there is one the first policy."""
    champion, first = champion_version(layout.champion), first_policy(layout)
    place = layout.run_policy
    if is_left_behind(decision, read_history(layout.champion)):
        place = layout.champion / "policy" if champion else first
    _replace(layout, place, champion, environment, first)


def keep_champion(layout: Layout) -> None:
    """After a rollback: replace `latest/`, if there is one, by the restored champion."""
    if layout.latest.exists():
        champion = current_champion(layout.champion)
        _replace(layout, layout.champion / "policy", champion.version, champion.environment)


def follow_champion(layout: Layout, step: Succession) -> None:
    """After an approval: the runs since the policy began to wait were built on it, so they are built on further."""
    with latest_lock(layout):
        path = layout.latest / RECORD
        latest = read_json(path, Latest) if path.exists() else None
        if latest and latest.champion == step.replaced:
            write_json(path, latest.model_copy(update={"champion": step.version}))


def _replace(
    layout: Layout, place: Path, champion: str | None, environment: str | None, first: Path | None = None
) -> None:
    version = read_json(place / "lineage.json", Lineage).version
    with latest_lock(layout), atomic_folder(layout.latest) as new:
        copy_folder(place, new / "policy")
        if first and champion is None:
            copy_folder(first, new / "first")
        write_json(new / RECORD, Latest(version=version, champion=champion, environment=environment))


@contextmanager
def latest_lock(layout: Layout) -> Iterator[None]:
    """The lock on the champion; repairs what a killed writer left."""
    with champion_lock(layout.champion):
        restore_folder(layout.latest)
        remove_leftovers(layout.latest)
        yield


def first_policy(layout: Layout) -> Path:
    """The policy that takes the champion's place until there is one: the run's first, or the scheduled runs' first.

    A run that starts from an earlier policy would else be compared with that alone, and small gains would not add up.
    """
    lineage = layout.policy(0) / "lineage.json"
    continues = layout.first.exists() and read_json(lineage, Lineage).parent is not None
    return layout.first if continues else layout.policy(0)
