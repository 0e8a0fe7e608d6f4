"""Find the record of a run by its number, folder, file, DVC experiment or git commit."""

import tempfile
from collections.abc import Iterable
from os.path import exists, isdir  # False for a name that is too long, for which pathlib raises
from pathlib import Path
from typing import Any

from flows.history.run_history import find_lock, find_number
from flows.reports.run_record import RunRecord, params_of_run, read_run_record, rounds_of
from tasks.artifacts import read_json
from tasks.core.terminal import shortened
from tasks.errors import GraftError
from tasks.layout import Layout

LONGEST_NAME = 100
"""Characters of a name in an error."""


def find_run(name: str, project: Path) -> tuple[str, RunRecord]:
    """The title and record of the run that `name` means.

    In this order: a path, a number in the history, a DVC experiment or git revision; all but the first are looked up in
    the folder `project`. The title has the name from the history. Raises GraftError if nothing is found.
    """
    path = Path(name).expanduser()
    if isdir(path):
        return _title(name, path, path / "dvc.lock"), read_run_record(Layout(path))
    if exists(path):
        return name, read_json(path, RunRecord)
    if entry := find_number(project, name):
        account = Layout(project).past_account(entry.number)
        if not account.is_file():
            raise GraftError(f"{entry.name}: {account} is missing; name its folder, or a commit with its dvc.lock")
        return entry.name, read_json(account, RunRecord)
    run = _from_dvc(name, project)
    if run is None:
        raise GraftError(
            f"{shortened(name, LONGEST_NAME)}: no such run; name a folder with run/ in it, an account.json, a DVC "
            "experiment, a git commit with its dvc.lock, or its number in graft history"
        )
    return run


def _title(name: str, project: Path, lock: Path) -> str:
    """With the name of the first run in the project's history that ended with this `dvc.lock`."""
    entry = find_lock(project, lock.read_bytes()) if lock.is_file() else None
    return f"{name} ({entry.name})" if entry else name


def _from_dvc(name: str, project: Path) -> tuple[str, RunRecord] | None:
    """The run of a commit or experiment: small files from git, the others from the DVC cache."""
    if not (project / ".dvc").is_dir():
        return None
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.scm import NoSCM, RevError, SCMError, resolve_rev
    from scmrepo.exceptions import SCMError as GitError

    from flows.dvc_stages.site_cache import set_site_cache

    set_site_cache(project)
    try:
        with Repo(str(project)) as repo:
            if isinstance(repo.scm, NoSCM):
                return None
            revision = resolve_rev(repo.scm, name)
    except (GitError, RevError, SCMError, ValueError):  # no commit yet; a name that is too long for libgit2
        return None
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder))
        try:
            files = DVCFileSystem(str(project), rev=revision)
            _fetch(files, layout, [layout.root / "params.yaml", layout.root / "dvc.lock"])
            if not (layout.root / "dvc.lock").exists():
                raise GraftError("dvc.lock is not in it")
            rounds = rounds_of(layout.root, params_of_run(layout.root))
            _fetch(files, layout, _record_files(layout, rounds))
            return _title(name, project, layout.root / "dvc.lock"), read_run_record(layout)
        except (DvcException, FileNotFoundError, GraftError) as error:
            line = f"{error.filename} is missing" if isinstance(error, FileNotFoundError) else str(error)
            line = " ".join(line.replace(f"{folder}/", "").split())
            raise GraftError(
                f"{name}: no complete run at this revision ({line}); commit dvc.lock after a run, or get its files "
                "with dvc pull"
            ) from None


def _fetch(files: Any, layout: Layout, paths: Iterable[Path]) -> None:
    """Copy those of `paths` that exist in a revision; `read_run_record` raises for required ones that are missing."""
    for path in paths:
        place = path.relative_to(layout.root).as_posix()
        if files.exists(place):
            path.parent.mkdir(parents=True, exist_ok=True)
            files.get(place, str(path), recursive=files.isdir(place))


def _record_files(layout: Layout, rounds: int) -> list[Path]:
    """The files and folders that a run record is made from."""
    numbers = range(1, rounds + 1)
    of_rounds = (layout.steps, layout.reward_histogram, layout.tree, layout.selection, layout.audit)
    return [
        layout.promotion,
        layout.problems("test"),
        layout.evaluation("before"),
        layout.evaluation("after"),
        layout.metrics("promote").parent,
        *(of_round(n) for n in numbers for of_round in of_rounds),
        layout.trajectories(rounds),
    ]
