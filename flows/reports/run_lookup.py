"""Find the record of a run by its number, folder, file, DVC experiment, git commit or MLflow run."""

import tempfile
from collections.abc import Iterable
from os.path import exists, isdir  # False for a name that is too long, for which pathlib raises
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from flows.history.run_history import Entry, entries, find_lock, find_number
from flows.reports.run_record import RunRecord, params_of_run, read_run_record, rounds_of
from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.tracking.queries import fetch_text

if TYPE_CHECKING:
    from dvc.api import DVCFileSystem

FORMS = (
    "a folder with run/ in it, an account.json, a DVC experiment, a git commit with its dvc.lock, an MLflow run, or "
    "its number in graft history"
)


def find_run(name: str, project: Path) -> tuple[str, RunRecord]:
    """The title and record of the run that `name` means.

    In this order: a path, a number in the history, a DVC experiment or git revision, an MLflow run; all but the first
    are looked up in the folder `project`. The title has the name from the history. Raises GraftError if nothing is
    found.
    """
    path = Path(name).expanduser()
    if isdir(path):
        return _title(name, _entry_of_folder(path)), read_run_record(Layout(path))
    if exists(path):
        return name, read_json(path, RunRecord)
    entry = find_number(project, name)
    record = _of_entry(entry, project) if entry else _from_dvc(name, project) or _from_mlflow(name, project)
    if record is None:
        raise GraftError(f"{name}: no such run; name {FORMS}")
    return record


def _title(name: str, entry: Entry | None) -> str:
    return f"{name} ({entry.name})" if entry else name


def _entry_of_folder(folder: Path) -> Entry | None:
    lock = folder / "dvc.lock"
    return find_lock(folder, lock.read_bytes()) if lock.is_file() else None


def _of_entry(entry: Entry, project: Path) -> tuple[str, RunRecord]:
    found = _from_mlflow(entry.mlflow_run, project) if entry.mlflow_run else None
    if found is None:
        raise GraftError(f"{entry.name}: MLflow does not have this run; name its folder, or a commit with its dvc.lock")
    return entry.name, found[1]


def _from_mlflow(name: str, project: Path) -> tuple[str, RunRecord] | None:
    if not (project / "params.yaml").is_file():
        return None
    text = fetch_text(project, load_params(project / "params.yaml").machine.tracking, name, "account.json")
    if text is None:
        return None
    entry = next((entry for entry in entries(project) if entry.mlflow_run == name), None)
    try:
        return _title(name, entry), RunRecord.model_validate_json(text)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        raise GraftError(f"{name}: its account.json in MLflow is of another Graft ({field}); name its folder") from None


def _from_dvc(name: str, project: Path) -> tuple[str, RunRecord] | None:
    """The run of a commit or experiment: small files from git, the others from the DVC cache."""
    if not (project / ".dvc").is_dir():
        return None
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.scm import NoSCM, RevError, SCMError, resolve_rev

    from flows.dvc_stages.site_cache import set_site_cache

    set_site_cache(project)
    try:
        with Repo(str(project)) as repo:
            if isinstance(repo.scm, NoSCM):
                return None
            revision = resolve_rev(repo.scm, name)
    except (RevError, SCMError):
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
            entry = find_lock(project, (layout.root / "dvc.lock").read_bytes())
            return _title(name, entry), read_run_record(layout)
        except (DvcException, FileNotFoundError, GraftError) as error:
            line = f"{error.filename} is missing" if isinstance(error, FileNotFoundError) else str(error)
            line = " ".join(line.replace(f"{folder}/", "").split())
            raise GraftError(
                f"{name}: no complete run at this revision ({line}); commit dvc.lock after a run, or get its files "
                "with dvc pull"
            ) from None


def _fetch(files: "DVCFileSystem", layout: Layout, paths: Iterable[Path]) -> None:
    """Copy those of `paths` that exist in a revision; `read_run_record` raises for required ones that are missing."""
    for path in paths:
        place = path.relative_to(layout.root).as_posix()
        if files.exists(place):
            path.parent.mkdir(parents=True, exist_ok=True)
            files.get(place, str(path), recursive=files.isdir(place))


def _record_files(layout: Layout, rounds: int) -> list[Path]:
    """The files and folders that a run record is made from."""
    numbers = range(1, rounds + 1)
    of_rounds = (layout.steps, layout.reward_histogram, layout.tree, layout.selection)
    return [
        layout.promotion,
        layout.problems("test"),
        layout.evaluation("before"),
        layout.evaluation("after"),
        layout.metrics("promote").parent,
        *(of_round(n) for n in numbers for of_round in of_rounds),
    ]
