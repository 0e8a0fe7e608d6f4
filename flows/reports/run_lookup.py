"""Find the record of a run by its folder, file, DVC experiment, git commit or MLflow run."""

import tempfile
from collections.abc import Iterable
from os.path import exists, isdir  # False for a name that is too long, for which pathlib raises
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from flows.reports.run_record import RunRecord, params_of_run, read_run_record, rounds_of
from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.tracking.queries import fetch_text

if TYPE_CHECKING:
    from dvc.api import DVCFileSystem

FORMS = "a folder with run/ in it, an account.json, a DVC experiment, a git commit with its dvc.lock, or an MLflow run"


def find_run(name: str, project: Path) -> RunRecord:
    """The run that `name` means, in this order: a path, then a DVC experiment or git revision, then an MLflow run.

    The latter two are looked up in the folder `project`. Raises GraftError if nothing is found.
    """
    path = Path(name).expanduser()
    if isdir(path):
        return read_run_record(Layout(path))
    if exists(path):
        return read_json(path, RunRecord)
    found = _from_dvc(name, project) or _from_mlflow(name, project)
    if found is None:
        raise GraftError(f"{name}: no such run; name {FORMS}")
    return found


def _from_mlflow(name: str, project: Path) -> RunRecord | None:
    if not (project / "params.yaml").is_file():
        return None
    text = fetch_text(project, load_params(project / "params.yaml").tracking, name, "account.json")
    if text is None:
        return None
    try:
        return RunRecord.model_validate_json(text)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        raise GraftError(f"{name}: its account.json in MLflow is of another Graft ({field}); name its folder") from None


def _from_dvc(name: str, project: Path) -> RunRecord | None:
    """The run of a commit or experiment: small files from git, the others from the DVC cache."""
    if not (project / ".dvc").is_dir():
        return None
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.scm import NoSCM, RevError, SCMError, resolve_rev

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
            return read_run_record(layout)
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
    return [
        layout.promotion,
        layout.problems("test"),
        layout.evaluation("before"),
        layout.evaluation("after"),
        layout.metrics("promote").parent,
        *(path for n in numbers for path in (layout.steps(n), layout.tree(n), layout.selection(n), layout.rewarded(n))),
    ]
