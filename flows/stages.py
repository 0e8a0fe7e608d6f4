"""One stage at a time, as `dvc repro --single-item` would, but computed inside this process.

DVC is the only cache and the only judge of what is done. Everything here is DVC's own `Stage.reproduce`: the checks,
the locks, the run-cache, the commit and `dvc.lock`. One step is replaced, that which starts `cmd`: it calls the
stage's function instead. So `graft` and `dvc repro` write the same bytes and each finds done what the other did.

Three things are stricter than in DVC, and never the other way round:
- every output and every cached copy is hashed again in each process, so that damage is seen whatever its time stamp;
- a stage that fails or is interrupted leaves the outputs of its last good run, not a gap;
- a dependency or a source that changes while the stage runs stops it, instead of being recorded as what was run.
"""

import errno
import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from dvc.dependency import ParamsDependency
from dvc.exceptions import CheckoutError, DvcException
from dvc.fs import LocalFileSystem
from dvc.lock import LockError
from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import get_active_graph, plan_repro
from dvc.stage.cache import RunCacheNotFoundError, RunCacheNotSupported
from dvc.stage.decorators import rwlocked, unlocked_repo
from dvc_data.hashfile.db import HashFileDB
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.meta import Meta

from flows.answer import answer
from flows.dvc_files import SoundState, readers_and_writers, settle_files
from flows.limit import run_limited
from flows.parsed import remember_parsed
from flows.pipeline import stage_of
from flows.reasons import AFTER, reasons_of
from flows.sources import SOURCES, digests
from flows.stage import run as run_stage
from tasks.artifacts import remove_leftovers
from tasks.errors import GraftError, Passing
from tasks.own_code import sources_at_start

How = Literal["unchanged", "restored", "ran"]


DESCRIBED_BY = ("dvc.yaml", "dvc.lock", "params.yaml")
"""The files that DVC knows a stage from."""


@dataclass(frozen=True)
class Outcome:
    """What became of a stage. `deps` and `outs` map paths to their md5 in `dvc.lock`."""

    address: str
    how: How
    seconds: float
    deps: dict[str, str]
    outs: dict[str, str]

    @property
    def cached(self) -> bool:
        """Whether nothing had to be computed."""
        return self.how != "ran"


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
        with _told():
            files = None if params is None else _Proposed(root / "params.yaml", params)
            self._repo = Repo(str(root), fs=files, _wait_for_lock=True)
            readers_and_writers(Path(self._repo.tmp_dir))  # where it is torn, DVC would stop
        _distrust(self._repo)
        self._described: list[bytes] = []
        self._stages: Any = None
        self._sources_written = False  # once is enough: see _changed_sources
        if pull:
            self._pull_run_cache()

    def named(self, name: str) -> list[str]:
        """The addresses that `name` means: `search@1` itself, `search` each of its rounds."""
        with _told():
            known = list(self._file.stages)
        found = [address for address in known if name in (address, address.partition("@")[0])]
        if not found:
            raise GraftError(f"no stage {name!r}; the stages are {', '.join(known)}")
        return found

    def run(self, address: str, force: bool = False) -> Outcome:
        """Bring one stage up to date: nothing to do, restored from the run-cache, or computed. See `Outcome.how`."""
        started = time.monotonic()
        if address != SOURCES and not self._sources_written:
            with _told(), lock_repo(self._repo):
                changed = self._load(SOURCES).changed()
            if changed:  # not in any case: another command's stage may be reading what it writes
                self.run(SOURCES)
            self._sources_written = True
        with _told(), lock_repo(self._repo), self._repo.scm_context(quiet=True):
            stage = self._load(address)
            self._refuse_missing_deps(stage)
            how = _reproduce(stage, self._function(address), force, self._pull)
            return Outcome(
                address=address,
                how=how,
                seconds=time.monotonic() - started,
                deps={d.def_path: d.hash_info.value for d in stage.deps if not isinstance(d, ParamsDependency)},
                outs={o.def_path: o.hash_info.value for o in stage.outs},
            )

    def stale(self) -> dict[str, list[str]]:
        """Address → why it is not up to date, in the order of `dvc repro`; an empty list means it is.

        A stage whose own inputs are unchanged but which comes after a stale one says `after …`: it may stay fresh,
        where that one turns out to write the same bytes.
        """
        reasons: dict[str, list[str]] = {}
        with _told(), lock_repo(self._repo):
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
        with _told(), lock_repo(self._repo):
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
        with _told(), suppress(RunCacheNotSupported):
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


def _reproduce(stage: Any, function: Callable[[], None], force: bool, pull: bool) -> How:
    """`dvc.repo.reproduce._reproduce_stage`, with `function` in the place of the stage's `cmd`."""
    hows: list[How] = []
    stage.checkout = partial(_check_out, stage, hows)
    stage.run = partial(_run_or_put_back, stage)
    stage._run_stage = partial(_restore_or_run, stage, function, hows)
    if not stage.reproduce(force=force, pull=pull):
        return hows[0] if hows else "unchanged"
    stage.dump(update_pipeline=False)
    return hows[0]


def _check_out(stage: Any, hows: list[How], **options: Any) -> Any:
    """`Stage.checkout`, which DVC calls here where it has pulled the outputs of a stage that did not change."""
    stats = type(stage).checkout(stage, **options)
    hows.append("restored")
    return stats


def _run_or_put_back(stage: Any, **options: Any) -> None:
    """`Stage.run`: remove the outputs, restore or compute them, commit them; all or nothing."""
    try:
        type(stage).run(stage, **options)
    except BaseException as error:
        try:
            _put_back(stage.reload())
        except (DvcException, OSError) as second:
            line = answer(error)[0] if isinstance(error, Exception) else "interrupted"
            detail = _one_line(second).partition(". ")[0]
            why = f"its last good outputs could not be put back ({detail}); the next run does it"
            raise GraftError(f"{line}; {why}") from error
        raise


@rwlocked(read=["deps"], write=["outs"])  # type: ignore[untyped-decorator]
def _restore_or_run(
    stage: Any, function: Callable[[], None], hows: list[How], dry: bool, force: bool, pull: bool = False, **_: Any
) -> None:
    """`dvc.stage.run.run_stage`. DVC has removed the outputs by now."""
    assert not dry
    for out in stage.outs:
        remove_leftovers(Path(out.fs_path))
    if not force:
        try:
            stage.repo.stage_cache.restore(stage, pull=pull)
        except RunCacheNotFoundError:
            pass
        else:
            hows.append("restored")
            return
    stage.save_deps()
    _refuse_changed_sources(stage)
    unlocked_repo(lambda _: function())(stage)
    _refuse_changed_deps(stage)
    hows.append("ran")


def _put_back(stage: Any) -> None:
    """The outputs as `dvc.lock` knows them; half-written ones that it does not know go."""
    for out in stage.outs:
        if out.persist:
            continue
        out.remove()  # first, so that a full disk has room again
        if out.hash_info and not out.changed_cache():
            out.checkout(force=True)


def _changed_sources(stage: Any) -> list[str]:
    """The stage's sources that were edited since this process began: Python keeps what it has imported."""
    if stage.addressing == SOURCES:
        return []
    now = digests(Path(stage.repo.root_dir), stage_of(stage.addressing))
    return [file for file, digest in now.items() if sources_at_start().get(file) != digest]


def _refuse_changed_sources(stage: Any) -> None:
    """An edited source would be recorded but not run."""
    for file in _changed_sources(stage):
        raise GraftError(f"{file}: changed since this command began; run it again to use the new source")


def _refuse_changed_deps(stage: Any) -> None:
    for path in [*_changed_sources(stage), *(dep.def_path for dep in stage.deps if dep.status())]:
        raise GraftError(
            f"{path}: changed while {stage.addressing} was running, so its result is of neither version "
            "and was dropped; run it again"
        )


class _Hashes(SoundState):
    """DVC's memory of file hashes, read only for files that this process hashed itself.

    DVC trusts a file whose size, inode and modification time are as it remembers. Here the change time must be the
    same too, which no program can set back. What is learnt goes into DVC's memory as ever, for `dvc` to use.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._seen: dict[str, tuple[tuple[Any, ...], Any]] = {}

    def get(self, path: str, fs: Any, info: Any = None) -> tuple[Any, Any]:
        stamp, hash_info = self._seen.get(path, (None, None))
        if stamp is None:
            return None, None
        info = info or fs.info(path)
        return (Meta.from_info(info), hash_info) if stamp == _stamp(info) else (None, None)

    def get_many(self, items: Any, fs: Any, infos: Any) -> Iterator[tuple[str, Any, Any]]:
        for path in items:
            yield (path, *self.get(path, fs, infos.get(path)))

    def save(self, path: str, fs: Any, hash_info: Any, info: Any = None) -> None:
        self.save_many([(path, hash_info, info)], fs)

    def save_many(self, items: Any, fs: Any) -> None:
        known = [(path, hash_info, info or fs.info(path)) for path, hash_info, info in items if info or fs.exists(path)]
        super().save_many(known, fs)
        self._seen.update({path: (_stamp(info), hash_info) for path, hash_info, info in known})


class _Proposed(LocalFileSystem):  # type: ignore[misc,unused-ignore]
    """The files as they are, but one of them with another text."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__()
        self._path, self._text = path, text

    def open(self, path: Any, mode: str = "r", **options: Any) -> Any:
        return StringIO(self._text) if Path(path).absolute() == self._path else super().open(path, mode, **options)


def _stamp(info: Any) -> tuple[Any, ...]:
    return tuple(info[key] for key in ("ino", "size", "mtime", "created"))  # `created` is the change time on Unix


def _distrust(repo: Repo) -> None:
    """Hash cached copies too: DVC takes a write-protected one at its word and would restore damage as a result."""
    repo.state.close()
    repo.state = _Hashes(repo.root_dir, repo.site_cache_dir, repo.dvcignore)
    for _, odb in repo.cache.by_scheme():
        odb.state = repo.state
        odb.check = partial(HashFileDB.check, odb)


@contextmanager
def _told() -> Iterator[None]:
    """DVC's errors in one line that names the thing and the remedy."""
    try:
        yield
    except LockError as error:
        raise Passing(f"{_one_line(error)}; another graft or dvc is at work here: wait until it ends") from error
    except DvcException as error:
        raise GraftError(_remedy(error)) from error
    except sqlite3.OperationalError as error:  # DVC's memory of hashes
        if "locked" not in str(error):
            raise
        raise Passing(f"dvc: its {error}; another dvc is at work: wait until it ends") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise GraftError(answer(error)[0]) from error
        raise


def _remedy(error: DvcException) -> str:
    from dvc.exceptions import CacheLinkError, NotDvcRepoError
    from dvc.output import OutputDoesNotExistError
    from dvc.scm import SCMError

    text = _one_line(error)
    if Path(str(getattr(error, "path", ""))).name == "dvc.lock":
        return f"dvc.lock: damaged ({text}); git checkout dvc.lock, or remove it: what is in the cache is not lost"
    if isinstance(error, CacheLinkError):  # it copies out of the cache, which works unless there is no room
        return f"{Path.cwd()}: the disk is full; free some space and run again, nothing was lost"
    if isinstance(error, OutputDoesNotExistError):
        return f"{text}: the stage ended without writing it; this is a fault of the stage, run it with --debug"
    if isinstance(error, NotDvcRepoError):
        return "no .dvc folder here; restore it from git, or make one with: dvc init"
    if isinstance(error, SCMError):
        return f"{text}; DVC needs a git repository, make one with: git init"
    return f"dvc: {text}; see dvc status and graft doctor"


def _one_line(error: BaseException) -> str:
    return re.sub(r"\s+", " ", str(error)).strip().rstrip(".")
