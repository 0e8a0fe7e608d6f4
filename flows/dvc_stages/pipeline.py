"""The DVC pipeline of a project, run stage by stage in this process.

A stage is checked, locked, restored from the run-cache, committed and written to `dvc.lock` by DVC's own
`Stage.reproduce`, as in `dvc repro --single-item`. Only the step that starts `cmd` is replaced by a call of the stage's
function. So `graft` and `dvc repro` write the same bytes, and neither repeats what the other has done.

`flows/dvc_stages/reproduce.py` and `flows/dvc_stages/patches/verified_hashes.py` are stricter than DVC, never laxer.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

from dvc.dependency import ParamsDependency
from dvc.dvcfile import load_file
from dvc.exceptions import CacheLinkError, DvcException, NotDvcRepoError
from dvc.fs import LocalFileSystem
from dvc.lock import LockError
from dvc.output import OutputDoesNotExistError
from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import get_active_graph, plan_repro
from dvc.scm import SCMError

from flows.dvc_stages.patches.atomic_files import make_files_atomic, processes_at_work
from flows.dvc_stages.patches.verified_hashes import verify_hashes
from flows.dvc_stages.reproduce import StageResult, reproduce
from flows.dvc_stages.site_cache import set_site_cache
from flows.dvc_stages.staleness import reasons_for
from flows.process.signals import Terminated
from flows.project.new_project import init_command
from flows.stages.dvc_yaml import MODULES, parse, stage_of
from flows.stages.edits import REMEDY, edited_stages
from flows.stages.run import run as run_stage
from flows.stages.sources import SOURCES, is_current
from flows.stages.timeout import run_limited
from tasks.artifacts import read_text, write_text
from tasks.core.terminal import print_warning
from tasks.errors import GraftError, TransientError, one_line
from tasks.params.file import load_params, overridden
from tasks.sources.process_sources import source_digests_at_start

PIPELINE_FILES = ("dvc.yaml", "dvc.lock", "params.yaml")
"""The files that DVC reads stages from."""


class DvcPipeline:
    """The stages of one project. Every method raises GraftError on an error of DVC."""

    def __init__(self, root: Path, params: str | None = None, seconds: Mapping[str, float] | None = None) -> None:
        """`params`: a text in place of `params.yaml`, for `stale` only.

        `seconds`: stage → time limit; such a stage is computed in a process of its own. A stage in `dvc.yaml` that is
        not as this version of Graft writes it is a warning.
        """
        self.root = root
        self._text = params
        self._seconds = seconds or {}
        source_digests_at_start()
        for line in edited_stages(root):
            print_warning(f"{line}; {REMEDY}")
        for name in ("dvc", "dvc_data", "dvc_objects"):  # Graft prints one line per stage itself
            logging.getLogger(name).setLevel(logging.CRITICAL)
        make_files_atomic()
        verify_hashes()
        set_site_cache(root)
        with translate_dvc_errors():
            fs = None if params is None else _ProposedParams(root / "params.yaml", params)
            self._repo = Repo(str(root), fs=fs, _wait_for_lock=True)
            processes_at_work(Path(self._repo.tmp_dir))  # removes a torn list, on which DVC would fail
        self._texts: list[bytes] = []
        self._stages: Any = None
        self._sources_written = False
        self._lock: str | None = None  # the text of dvc.lock after the last stage

    def find(self, name: str) -> list[str]:
        """The ids of the stages that `name` means: `search@1` itself, `search` each of its rounds."""
        with translate_dvc_errors():
            ids = list(self._described())
        meant = [stage_id for stage_id in ids if name in (stage_id, stage_of(stage_id))]
        if not meant:
            raise GraftError(f"no stage {name!r}; the stages are {', '.join(ids)}")
        return meant

    def run(self, stage_id: str, force: bool = False, before: Callable[[str], None] = lambda _: None) -> StageResult:
        """Bring one stage up to date: nothing to do, restored from the run-cache, or computed.

        `before` is called with the id of the stage if it must be computed, before that.
        """
        started = time.monotonic()
        if stage_id != SOURCES:
            self.update_sources()
        with translate_dvc_errors(), lock_repo(self._repo), self._repo.scm_context(quiet=True):
            self._keep_lock()
            stage = self._described()[stage_id]
            self._refuse_missing_deps(stage)
            limit = self._seconds.get(stage_of(stage_id))

            def compute() -> None:
                before(stage_id)
                if limit:
                    run_limited(self.root, stage_id, limit)
                else:
                    run_stage(self.root, stage_id)

            how = reproduce(stage, compute, force, before_dump=self._keep_lock)
            self._keep_lock()
            return StageResult(
                stage_id,
                how,
                seconds=time.monotonic() - started,
                deps={d.def_path: d.hash_info.value for d in stage.deps if not isinstance(d, ParamsDependency)},
                outs={o.def_path: o.hash_info.value for o in stage.outs},
            )

    def update_sources(self) -> None:
        """Bring the stage `sources` up to date, once: DVC itself runs it every time.

        Files that are current are left alone: a stage of another command may be reading them.
        """
        if self._sources_written:
            return
        with translate_dvc_errors(), lock_repo(self._repo):
            stage = self._described()[SOURCES]
            recorded = stage.deps_cached() and not stage.changed_outs() and not stage.changed_stage()
        params = load_params(self.root / "params.yaml")
        if not recorded or not all(is_current(self.root, name, params) for name in MODULES):
            self.run(SOURCES)
        self._sources_written = True

    def _keep_lock(self) -> None:
        """Write `dvc.lock` as it was if it was removed since the last stage.

        A new one would begin with the next stage, and keep its entries in that order for ever; and what is not in it is
        computed again, a promotion for instance, which is not in the run-cache.
        """
        path = self.root / "dvc.lock"
        if path.is_file():
            self._lock = read_text(path)
        elif self._lock is not None:
            write_text(path, self._lock)
            print_warning(f"{path}: was removed during this run; it is there again, as it was")

    def check_lock(self, stage_ids: Iterable[str]) -> None:
        """Raise GraftError if `dvc.lock` lacks a stage, because it was replaced while the stages ran."""
        self._keep_lock()
        path = self.root / "dvc.lock"
        known = parse(path).get("stages", {}) if path.is_file() else {}
        lost = [stage_id for stage_id in stage_ids if stage_id not in known]
        if lost:
            raise GraftError(
                f"dvc.lock: {lost[0]} is not in it, so the file was replaced during this run; run it again: results "
                "are in the cache"
            )

    def stale(self) -> dict[str, list[str]]:
        """Stage id → reasons why it is stale, in the order of `dvc repro`; empty if it is up to date.

        The only reason of a stage that is unchanged itself but depends on a stale one is `after …`: it remains up to
        date if that one writes the same bytes.
        """
        reasons: dict[str, list[str]] = {}
        path = self.root / "params.yaml"
        params = load_params(path) if self._text is None else overridden(path, self._text, [])[1]
        with translate_dvc_errors(), lock_repo(self._repo):
            graph = get_active_graph(self._repo.index.graph)
            for stage in plan_repro(graph):
                if stage.addressing == SOURCES:
                    continue
                before = sorted(s.addressing for s in graph.successors(stage) if reasons.get(s.addressing))
                changes = reasons_for(stage, self.root, params)
                reasons[stage.addressing] = changes or ([f"after {', '.join(before)}"] if before else [])
        return reasons

    def _refuse_missing_deps(self, stage: Any) -> None:
        """Raise before anything is changed; DVC would remove the outputs first."""
        for dep in stage.deps:
            if not dep.exists:
                outs = (out for other in self._repo.index.stages for out in other.outs)
                writer = next((out.stage.addressing for out in outs if out.fs.isin_or_eq(dep.fs_path, out.fs_path)), "")
                remedy = f"run graft stage {writer}, or all with graft retrain" if writer else "restore it"
                raise GraftError(f"{stage.addressing}: no {dep.def_path}; {writer or 'nothing'} writes it: {remedy}")

    def _described(self) -> Any:
        """Id → stage by the present files, which are parsed again only if one of them has changed."""
        texts = [path.read_bytes() for name in PIPELINE_FILES if (path := self.root / name).is_file()]
        if self._texts != texts:
            self._texts, self._stages = texts, load_file(self._repo, str(self.root / "dvc.yaml")).stages
        return self._stages


class _ProposedParams(LocalFileSystem):  # type: ignore[misc,unused-ignore]
    """The local file system with another text in place of one file."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__()
        self._path, self._text = path, text

    def open(self, path: Any, mode: str = "r", **options: Any) -> Any:
        return StringIO(self._text) if Path(path).absolute() == self._path else super().open(path, mode, **options)


@contextmanager
def translate_dvc_errors() -> Iterator[None]:
    """Raise errors of DVC and of its database as GraftError, or TransientError if DVC is locked.

    One that DVC raises as it cleans up after a signal is what the signal raised.
    """
    try:
        yield
    except DvcException as error:
        if signalled := _signal_before(error):
            raise signalled from None
        if isinstance(error, LockError):
            raise TransientError(f"{_text(error)}; another graft or dvc is at work here: wait until it ends") from error
        raise GraftError(_remedy(error)) from error
    except RecursionError:  # DVC's own reader of YAML
        for path in (Path(name) for name in PIPELINE_FILES):
            if path.is_file():
                parse(path)  # names the file and the line
        raise
    except sqlite3.OperationalError as error:  # DVC's database of file hashes
        if "locked" not in str(error):
            raise
        raise TransientError(f"dvc: its {error}; another dvc is at work: wait until it ends") from error


def _signal_before(error: BaseException | None) -> BaseException | None:
    """What a signal raised, while which was handled the error came."""
    while error is not None and not isinstance(error, KeyboardInterrupt | Terminated):
        error = error.__cause__ or error.__context__
    return error


def _remedy(error: DvcException) -> str:
    text = _text(error)
    if Path(str(getattr(error, "path", ""))).name == "dvc.lock":
        return f"dvc.lock: damaged ({text}); git checkout dvc.lock, or remove it: what is in the cache is not lost"
    if isinstance(error, CacheLinkError):  # DVC copies out of the cache, which fails only on a full disk
        return f"{Path.cwd()}: the disk is full; free some space and run again, nothing was lost"
    if isinstance(error, OutputDoesNotExistError):
        return f"{text}: the stage ended without writing it; this is a fault of the stage, run it with --debug"
    if isinstance(error, NotDvcRepoError):
        return f"no .dvc folder here; restore it from git, or make one with: {init_command(Path.cwd())}"
    if isinstance(error, SCMError) and "outside of git repository" in text:
        place = next((name for name in ("run", "champion") if Path(name).is_symlink()), "an output")
        return (
            f"{place}: a link to another place, which DVC refuses; put the DVC cache there instead: dvc cache dir PATH"
        )
    if isinstance(error, SCMError):
        return f"{text}; DVC needs a git repository, make one with: git init"
    return f"dvc: {text}; see dvc status and graft doctor"


def _text(error: BaseException) -> str:
    return one_line(" ".join(str(error).split())).rstrip(".")
