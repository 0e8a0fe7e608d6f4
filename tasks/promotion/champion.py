"""The `champion/` folder: the best promoted policy and what it was promoted on.

    champion/
      champion.json     its version, and the digest of the test problems behind `outcomes.jsonl`
      policy/           a copy of the policy folder
      outcomes.jsonl    how each test problem went
      promotion.json    the decision that made it champion
      previous/         the same of the champion before, so that a promotion can be taken back

It outlives runs and belongs to none, so DVC does not track it.
"""

import shutil
from pathlib import Path

from tasks.artifacts import copy_folder, read_json, whole_folder, write_json, write_text
from tasks.errors import GraftError
from tasks.records import Champion

PREVIOUS = "previous"


def read_champion(folder: Path, environment: str) -> Champion | None:
    """The present champion, None where there is none yet.

    Raises GraftError where the folder is damaged, or where its policy writes for another environment: the two cannot
    take each other's place.
    """
    if not folder.exists():
        return None
    if not (folder / "champion.json").exists():
        raise GraftError(f"{folder}: holds no champion.json; move the folder away to start without a champion")
    champion = read_json(folder / "champion.json", Champion)
    if champion.environment != environment:
        raise GraftError(
            f"{folder}: its policy was trained in environment {champion.environment}, this run's is {environment}; "
            f"move the folder away, or set environment to {champion.environment}"
        )
    return champion


def replace_champion(folder: Path, policy: Path, outcomes: Path, decision: str, champion: Champion) -> None:
    """Put a policy in the champion's place, whole or not at all; the old champion becomes `previous/`.

    `policy` is the folder and `outcomes` the file to copy, `decision` the text of `promotion.json`.
    """
    with whole_folder(folder) as new:
        copy_folder(policy, new / "policy")
        shutil.copyfile(outcomes, new / "outcomes.jsonl")
        write_text(new / "promotion.json", decision)
        if folder.exists():
            copy_folder(folder, new / PREVIOUS, leave_out=PREVIOUS)
        write_json(new / "champion.json", champion)
