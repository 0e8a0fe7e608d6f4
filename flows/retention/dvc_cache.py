"""Objects of the DVC cache that no kept run needs.

DVC decides what is used (`Repo.used_objs`, `dvc_data`'s `gc`). It does not know runs that were never committed: a copy
of the `dvc.lock` of each finished run is kept in `.graft/locks/NUMBER.lock`, and the objects in the last ones are used,
too. `cp .graft/locks/N.lock dvc.lock && dvc checkout` restores the files of such a run.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.scm import SCMError
from dvc_data.hashfile.gc import gc
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.tree import Tree

from flows.dvc_stages.patches.atomic_files import processes_at_work
from flows.dvc_stages.site_cache import set_site_cache
from flows.stages.dvc_yaml import parse
from tasks.artifacts import read_text, write_text
from tasks.errors import GraftError


class Listing(NamedTuple):
    """`remove` deletes the things in `removable` and nothing else. `kept`: lines on what is kept, and why."""

    title: str
    removable: dict[str, int]  # name → bytes
    kept: list[str]
    remove: Callable[[], None]


def list_cache(root: Path, keep: int) -> Listing:
    """List unused objects. Raises GraftError if DVC cannot decide which are used.

    Used are those of the workspace, of every branch, tag and experiment (queued ones too), of the last `keep` locks of
    each branch, and of the last `keep` runs.
    """
    title = "DVC cache"
    _refuse_dvc_at_work(root)
    set_site_cache(root)
    try:
        repo = Repo(str(root))
        if not Path(repo.cache.local.path).resolve().is_relative_to(root.resolve()):
            kept = f"{repo.cache.local.path} is outside of this project and may be others', too: see dvc gc"
            return Listing(title, {}, [kept], lambda: None)
        used = _used(repo, root, keep)
    except (DvcException, SCMError) as error:
        line = " ".join(str(error).split())
        raise GraftError(f"dvc: {line}; fix that first: what is needed is not known, so nothing was removed") from error
    databases = {odb.path: odb for _, odb in repo.cache.by_scheme() if odb}.values()
    sizes = dict[str, int]()
    for odb in databases:
        needed = {info.value for info in used if info.name == odb.hash_name}
        unused = (oid for oid in sorted(odb.all()) if oid not in needed)
        sizes |= {oid: Path(odb.oid_to_path(oid)).stat().st_size for oid in unused}
    locks = saved_locks(root)
    old = locks[:-keep]
    sizes |= {f"{path.relative_to(root)}": path.stat().st_size for path in old}
    kept_locks = f"the last {keep} of each branch's dvc.lock and of {len(locks)} finished runs"

    def remove() -> None:
        with repo.lock:
            _refuse_dvc_at_work(root)
            for odb in databases:
                gc(odb, used)
        for path in old:
            path.unlink(missing_ok=True)

    return Listing(title, sizes, ["workspace, branches, tags, experiments, queued ones", kept_locks], remove)


def _refuse_dvc_at_work(root: Path) -> None:
    """`dvc repro` does not take the workspace lock, and objects that it is about to record would look unused."""
    for pid in sorted(processes_at_work(root / ".dvc" / "tmp")):
        if psutil.pid_exists(pid):
            raise GraftError(f"{root}: dvc is at work here (process {pid}); wait until it ends")


def _used(repo: Any, root: Path, keep: int) -> set[Any]:
    named = {"all_branches": True, "all_tags": True, "all_experiments": True, "revs": _unnamed_revisions(root, keep)}
    used = set().union(*repo.used_objs(**named, force=True).values())
    for lock in saved_locks(root)[-keep:]:
        used |= _of_lock(repo, parse(lock))
    return used


def _of_lock(repo: Any, content: Any) -> set[Any]:
    """The objects in a lock, deps included, and the files in its folders."""
    odb, used = repo.cache.local, set()
    for stage in content["stages"].values():
        for entry in (*stage.get("deps", []), *stage.get("outs", [])):
            if "md5" not in entry:
                continue
            info = HashInfo("md5", entry["md5"])
            used.add(info)
            if info.isdir and odb.exists(info.value):
                used |= {inner for _, _, inner in Tree.load(odb, info)}
    return used


def _unnamed_revisions(root: Path, keep: int) -> list[str]:
    """The last commits of each branch that changed `dvc.lock`, and queued experiments."""
    heads = _git(root, "for-each-ref", "--format=%(objectname)", "refs/heads", "refs/remotes")
    last = [rev for head in heads for rev in _git(root, "log", f"-{keep}", "--format=%H", head, "--", "dvc.lock")]
    stashes = _git(root, "for-each-ref", "--format=%(refname)", "refs/exps/stash", "refs/exps/celery/stash")
    queued = [rev for name in stashes for rev in _git(root, "log", "-g", "--format=%H", name)]
    return list(dict.fromkeys([*last, *queued]))


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise GraftError(f"git {arguments[0]}: {done.stderr.strip().splitlines()[-1:]}; nothing was removed")
    return done.stdout.split()


def save_lock(root: Path) -> None:
    """Save the present `dvc.lock`, unless it equals the last one."""
    text = read_text(root / "dvc.lock")
    before = saved_locks(root)
    if not before or read_text(before[-1]) != text:
        number = int(before[-1].stem) + 1 if before else 1
        write_text(root / ".graft" / "locks" / f"{number:06}.lock", text)


def saved_locks(root: Path) -> list[Path]:
    """The locks of finished runs, the oldest first."""
    return sorted((root / ".graft" / "locks").glob("[0-9]*.lock"), key=lambda path: int(path.stem))
