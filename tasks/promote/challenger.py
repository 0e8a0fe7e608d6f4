"""The `challenger/` folder: with `promotion.approve` person, a better policy that waits for approval.

    challenger/
      champion.json, policy/, outcomes.jsonl …    as in `champion/`, to which they go
      page.html                                   the page of its run

A later better policy replaces it. Like `champion/` it is not tracked by DVC and is replaced atomically.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.artifacts import atomic_folder, read_json, remove_leftovers, restore_folder, write_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.promote.champion import (
    Challenger,
    champion_lock,
    champion_version,
    check_beginning,
    copy_champion,
    read_history,
    replace_champion,
    verify_champion,
)
from tasks.records.promotion import Promotion, Succession


def ask_approval(decision: Promotion) -> Promotion:
    """The decision on a better policy where a person is to approve it."""
    reason = f"better: {decision.reason.removeprefix('promoted: ')}{_request(decision)}"
    return decision.model_copy(update={"promoted": False, "approval": "waits", "reason": reason})


def _approved(decision: Promotion, remark: str) -> Promotion:
    """The decision of `ask_approval` once a person has approved."""
    found = decision.reason.removeprefix("better: ").removesuffix(_request(decision))
    reason = f"promoted: {found}; approved by a person{f' ({remark})' if remark else ''}"
    return decision.model_copy(update={"promoted": True, "approval": "person", "reason": reason})


def _request(decision: Promotion) -> str:
    return f"; waits for approval: graft promote {decision.version}"


def read_challenger(layout: Layout) -> Promotion | None:
    """The decision on the policy that waits for approval; None if none does."""
    if not layout.challenger.exists():
        return None
    decision = read_json(layout.challenger / "promotion.json", Promotion)
    approved = decision.version == champion_version(layout.champion)  # its process was killed before it had removed it
    return None if approved else decision


def keep_challenger(layout: Layout, challenger: Challenger) -> None:
    """Keep a policy that waits for approval, in place of an earlier one."""
    with _lock(layout), atomic_folder(layout.challenger) as new:
        challenger.write(new)


def remove_challenger(layout: Layout) -> None:
    """Remove the policy that waits, if one does: another one became champion."""
    with _lock(layout):
        _remove(layout.challenger)


def approve_challenger(layout: Layout, version: str, remark: str, time: str) -> Succession:
    """Make the policy that waits, whose version begins with `version`, the champion, atomically.

    `remark`: the person's reason, may be empty. Raises GraftError if `version` is too short, another policy waits, or
    this one was compared with another champion or is damaged.
    """
    check_beginning(version)
    with _lock(layout):
        decision, now = _waiting(layout, version), champion_version(layout.champion)
        if decision.champion_version != now:
            raise GraftError(
                f"{decision.version}: was compared with {decision.champion_version or 'no champion'}, but the champion "
                f"is {now or 'gone'}; compare again: graft retrain, then graft stage promote --force"
            )
        verify_champion(layout.challenger, decision.version)
        approved = _approved(decision, remark)

        def fill(new: Path) -> None:
            copy_champion(layout.challenger, new)
            write_json(new / "promotion.json", approved)

        step = Succession(version=approved.version, replaced=now, how="approved", reason=approved.reason, time=time)
        replace_champion(layout.champion, fill, step)
        _remove(layout.challenger)
    return step


def _waiting(layout: Layout, version: str) -> Promotion:
    """The decision on the policy that waits. Raises GraftError if its version does not begin with `version`."""
    decision, now = read_challenger(layout), champion_version(layout.champion) or ""
    if decision and decision.version.startswith(version):
        return decision
    if now.startswith(version):
        raise GraftError(f"{version}: is the champion already; graft champion shows what waits for approval")
    former = [step.version for step in read_history(layout.champion) if step.version.startswith(version)]
    if former:
        raise GraftError(f"{version}: was champion before; graft rollback {former[-1]} puts it back")
    waits = f"{decision.version} does: name that" if decision else "none does; graft champion shows the champions"
    raise GraftError(f"{version}: is no policy that waits for approval; {waits}")


@contextmanager
def _lock(layout: Layout) -> Iterator[None]:
    """The lock on the champion, with which a challenger is compared; repairs what a killed writer left."""
    with champion_lock(layout.champion):
        restore_folder(layout.challenger)
        remove_leftovers(layout.challenger)
        yield


def _remove(folder: Path) -> None:
    """Remove a folder in one step, so that no part of it is taken for all."""
    if folder.exists():
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as aside:
            os.replace(folder, Path(aside, "removed"))
