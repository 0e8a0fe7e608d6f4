"""One stage at a time, as `dvc repro --single-item` would, but computed inside this process.

DVC is the only cache and the only judge of what is done. Everything here is DVC's own `Stage.reproduce`: the checks,
the locks, the run-cache, the commit and `dvc.lock`. One step is replaced, that which starts `cmd`: it calls the
stage's function instead. So `graft` and `dvc repro` write the same bytes and each finds done what the other did.

What is stricter than in DVC, and never the other way round, is in `flows/dvc_stages/patches/verified_hashes.py` and
`flows/dvc_stages/reproduce.py`.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from dvc.dependency import ParamsDependency
from dvc.exceptions import CheckoutError
from dvc.fs import LocalFileSystem
from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import get_active_graph, plan_repro
from dvc.stage.cache import RunCacheNotFoundError, RunCacheNotSupported
from dvc_data.hashfile.hash_info import HashInfo

from flows.dvc_stages.errors import told
from flows.dvc_stages.patches.atomic_files import readers_and_writers, settle_files
from flows.dvc_stages.patches.verified_hashes import distrust
from flows.dvc_stages.patches.yaml_cache import remember_parsed
from flows.dvc_stages.reproduce import reproduce
from flows.dvc_stages.snapshot import DESCRIBED_BY, leave
from flows.dvc_stages.staleness import AFTER, reasons_of
from flows.stages.dvc_yaml import stage_of
from flows.stages.result import StageResult
from flows.stages.run import run as run_stage
from flows.stages.sources import SOURCES
from flows.stages.timeout import run_limited
from tasks.errors import GraftError
from tasks.sources.process_sources import sources_at_start


class Stages:
    """The stages of one project. Every method raises GraftError where DVC cannot go on."""

    def __init__(
        self,
        root: Path,
        pull: bool = False,
        params: str | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        """`pull`: take from the DVC remote what was computed elsewhere, as `dvc repro --pull` does.

        `params`: a text to judge by in the place of `params.yaml`; for `stale` and `at_hand`, not for `run`.
        `seconds`: stage → the longest that it may take; it is then computed in a process of its own.
        """
        self.root = root
        self._pull = pull
        self._seconds = seconds or {}
        sources_at_start()
        for name in ("dvc", "dvc_data", "dvc_objects"):  # Graft tells what becomes of each stage, in one line
            logging.getLogger(name).setLevel(logging.CRITICAL)
        remember_parsed()
        settle_files()
        with told():
            files = None if params is None else _Proposed(root / "params.yaml", params)
            self._repo = Repo(str(root), fs=files, _wait_for_lock=True)
            readers_and_writers(Path(self._repo.tmp_dir))  # where it is torn, DVC would stop
        distrust(self._repo)
        self._described: list[bytes] = []
        self._stages: Any = None
        self._known: dict[str, Any] = {}  # see reproduce
        self._sources_written = False  # once is enough: see _changed_sources
        self._outcomes: dict[str, StageResult] = {}
        if pull:
            self._pull_run_cache()

    def named(self, name: str) -> list[str]:
        """The addresses that `name` means: `search@1` itself, `search` each of its rounds."""
        with told():
            known = list(self._file.stages)
        found = [address for address in known if name in (address, address.partition("@")[0])]
        if not found:
            raise GraftError(f"no stage {name!r}; the stages are {', '.join(known)}")
        return found

    def run(self, address: str, force: bool = False) -> StageResult:
        """Bring one stage up to date: nothing to do, restored from the run-cache, or computed."""
        started = time.monotonic()
        if address != SOURCES and not self._sources_written:
            with told(), lock_repo(self._repo):
                changed = self._load(SOURCES).changed()
            if changed:  # not in any case: another command's stage may be reading what it writes
                self.run(SOURCES)
            self._sources_written = True
        with told(), lock_repo(self._repo), self._repo.scm_context(quiet=True):
            stage = self._load(address)
            self._refuse_missing_deps(stage)
            how = reproduce(stage, self._function(address), force, self._pull, self._known)
            self._outcomes[address] = outcome = StageResult(
                address=address,
                how=how,
                seconds=time.monotonic() - started,
                deps={d.def_path: d.hash_info.value for d in _files(stage.deps)},
                outs={o.def_path: o.hash_info.value for o in stage.outs},
            )
            return outcome

    def leave(self) -> None:
        """Note how the stages that were run left the workspace, for `flows.dvc_stages.snapshot`."""
        with told(), lock_repo(self._repo):
            stages = [self._load(address) for address in self._outcomes]
            files = [item for stage in stages for item in (*_files(stage.deps), *stage.outs)]
            store = Path(self._repo.cache.local.path)
            if all(isinstance(item.fs, LocalFileSystem) for item in files):
                roots = {item.fs_path for item in files}
                stores = [store, *sorted(store.glob("*"))]
                leave(self.root, roots, self._repo.state.seen(), stores, [*self._outcomes.values()])

    def stale(self) -> dict[str, list[str]]:
        """Address → why it is not up to date, in the order of `dvc repro`; an empty list means it is.

        A stage whose own inputs are unchanged but which comes after a stale one says `after …`: it may stay fresh,
        where that one turns out to write the same bytes.
        """
        reasons: dict[str, list[str]] = {}
        with told(), lock_repo(self._repo):
            graph = get_active_graph(self._repo.index.graph)
            for stage in plan_repro(graph):
                if stage.addressing == SOURCES:
                    continue
                before = sorted(s.addressing for s in graph.successors(stage) if reasons.get(s.addressing))
                found = reasons_of(stage, self.root)
                reasons[stage.addressing] = found or ([AFTER + ", ".join(before)] if before else [])
        return reasons

    def at_hand(self, address: str) -> bool:
        """Whether DVC has the results of a stage with its inputs and params as they are now: it would restore them."""
        with told(), lock_repo(self._repo):
            stage = self._load(address)
            if all(dep.exists for dep in stage.deps):
                if not stage.deps_cached():  # look for the run with these deps, not for the last one; in memory
                    stage.save_deps()
                    for out in stage.outs:
                        out.hash_info = HashInfo()
                with suppress(RunCacheNotFoundError):
                    stage.repo.stage_cache.restore(stage, dry=True)
                    return True
        return False

    def _pull_run_cache(self) -> None:
        """What was computed from what; the results themselves come when a stage asks for them."""
        if not self._repo.config["core"].get("remote"):
            raise GraftError("--pull: this project has no remote by default; name one: dvc remote add -d NAME PLACE")
        with told(), suppress(RunCacheNotSupported):
            self._repo.stage_cache.pull(None)

    def _function(self, address: str) -> Callable[[], None]:
        """What computes the stage."""
        limit = self._seconds.get(stage_of(address))
        return partial(run_limited, self.root, address, limit) if limit else partial(run_stage, self.root, address)

    def _refuse_missing_deps(self, stage: Any) -> None:
        """Before anything is touched; DVC would first remove the outputs."""
        for dep in stage.deps:
            if self._pull and not dep.exists:
                with suppress(CheckoutError):  # the remote has it no more
                    self._repo.pull(dep.def_path)
            if not dep.exists:
                writers = [
                    s for s in self._repo.index.stages for o in s.outs if o.fs.isin_or_eq(dep.fs_path, o.fs_path)
                ]
                name = writers[0].addressing if writers else "nothing"
                remedy = f"run graft stage {name}, or all with graft retrain" if writers else "restore it"
                raise GraftError(f"{stage.addressing}: no {dep.def_path}; {name} writes it: {remedy}")

    @property
    def _file(self) -> Any:
        from dvc.dvcfile import load_file

        return load_file(self._repo, str(self.root / "dvc.yaml"))

    def _load(self, address: str) -> Any:
        """The stage as the files describe it now; they are only looked through again when one of them changed."""
        texts = [path.read_bytes() for name in DESCRIBED_BY if (path := self.root / name).is_file()]
        if self._described != texts:
            self._described, self._stages = texts, self._file.stages
        return self._stages[address]


def _files(deps: Sequence[Any]) -> list[Any]:
    """Those of a stage's dependencies that are no params."""
    return [dep for dep in deps if not isinstance(dep, ParamsDependency)]


class _Proposed(LocalFileSystem):  # type: ignore[misc,unused-ignore]
    """The files as they are, but one of them with another text."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__()
        self._path, self._text = path, text

    def open(self, path: Any, mode: str = "r", **options: Any) -> Any:
        return StringIO(self._text) if Path(path).absolute() == self._path else super().open(path, mode, **options)
