"""Checks before a run: the project folder, `params.yaml`, the problems file and the user's files."""

import os
from collections.abc import Callable, Sequence
from os.path import isdir  # a name that is too long is none, where pathlib's own would raise
from pathlib import Path
from tempfile import TemporaryFile

from flows.stages.dvc_yaml import MODULES
from flows.stages.user_files import user_files
from tasks.artifacts import read_text, write_text
from tasks.core.child_process import CODE
from tasks.core.out_of_memory import check_address_space
from tasks.environments.lookup import check_environment
from tasks.errors import GraftError
from tasks.model.device import check_device
from tasks.params.file import overridden
from tasks.params.missing import completed, describe_added
from tasks.params.params import Params
from tasks.problems.files import problem_files
from tasks.problems.jsonl import longest_questions
from tasks.redaction import redacted
from tasks.sources.process_sources import code_folder
from tasks.tracking.tracker import check_tracker

TEMPORARY = 1 << 16
"""Bytes for which there must be room in the folder of temporary files."""


def project_root() -> Path:
    """The current folder. Raises GraftError unless it is a project; a clone of Graft has to run its own code."""
    root = Path.cwd()
    for name in ("params.yaml", "dvc.yaml"):
        if not (root / name).is_file():
            raise GraftError(f"{name}: not in {root}; go to the project's own folder first, or make one: graft new DIR")
    if "?" in str(root):
        raise GraftError(f"{root}: Prefect cannot keep a database below a name with a question mark; rename it")
    if code_folder(root).resolve() != CODE:
        raise GraftError(
            f"graft: this command runs the code in {CODE}, but the stages of {root} are recorded with their own; "
            f"make setup there gives it a graft of its own, or run: python -m flows.cli.main"
        )
    return root


def write_params(root: Path, assignments: Sequence[str], report: Callable[[str], None]) -> Params:
    """Write `key=value` assignments, and params that are missing, into `params.yaml`, and report each change.

    Raises GraftError, with the file unchanged, if anything that the run needs is missing.
    """
    text, params, changes = checked_params(root, assignments)
    if changes:
        write_text(root / "params.yaml", text)
    for line in changes:
        report(line)
    return params


def checked_params(root: Path, assignments: Sequence[str] = ()) -> tuple[str, Params, list[str]]:
    """`proposed_params`. Raises GraftError, too, if the machine lacks what a run needs."""
    check_address_space()
    check_temporary_folder()
    text, params, changes = proposed_params(root, assignments)
    check_device(params.machine.device)
    return text, params, changes


def check_temporary_folder() -> None:
    """Raise GraftError if TMPDIR is full: SQLite, which Prefect, DVC and the tracker use, would blame its databases."""
    folder = os.environ.get("TMPDIR", "")
    if isdir(folder):
        try:
            with TemporaryFile(dir=folder) as file:
                file.write(bytes(TEMPORARY))
        except OSError as error:
            raise GraftError(f"TMPDIR: {folder}: {error.strerror}; free some space there, or name another") from error


def proposed_params(root: Path, assignments: Sequence[str]) -> tuple[str, Params, list[str]]:
    """The text that `write_params` would write, its params, and a line for each change. Writes nothing."""
    path = root / "params.yaml"
    text, missing = completed(path, read_text(path))
    text, params, changes = overridden(path, text, assignments)
    check_tracker(root, params.machine.tracking)
    user_files(root, params)  # raises if one is missing
    problem_files(root, params.problems.path)  # whatever the source, it is a dependency of the first stage
    for stage in params.machine.schedule.seconds:
        if stage not in MODULES:
            raise GraftError(f"machine.schedule.seconds: no stage {stage!r}; name one of {', '.join(MODULES)}")
    check_environment(root, params)
    lines = [redacted(f"params.yaml: {key}: {old} → {new}") for key, (old, new) in changes.items()]
    return text, params, [*([describe_added(missing)] if missing else []), *lines]


def questions_of(root: Path, params: Params) -> dict[str, str]:
    """The longest questions of a file, by their places, for a base that may have no room for them."""
    return longest_questions(root, params) if params.problems.source == "jsonl" else {}
