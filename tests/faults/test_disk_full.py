"""Law: a full disk stops a run with one line that names the file; with room again it ends as if nothing was."""

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.small_disk import Ballast, mount, mounted
from tests.support.tiny_project import ADDRESSES, REPOSITORY, environment, graft, ran

pytestmark = pytest.mark.slow

FULL = re.compile(r"graft: (?P<file>/\S+): the disk is full; free some space and run again(, nothing was lost)?")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=24m", "tmpfs") as disk:
        yield disk


def test_a_full_disk_at_every_other_stage(new: Path, disk: Path, ends_well: Callable[[Path], None]) -> None:
    """Full from the start, or as soon as the stage has written a little: its outputs, the cache, dvc.lock."""
    root = Path(shutil.copytree(new, disk / "project"))
    ballast, rng, stopped = Ballast(disk), random.Random(0), 0
    for place, address in enumerate(ADDRESSES):
        if place % 2:
            graft(root, "stage", address)
            continue
        before = (root / "dvc.lock").read_bytes() if (root / "dvc.lock").exists() else b""
        ballast.fill(leave=rng.choice([0, 4, 8, 16, 24, 32, 40]) << 10)
        told = graft(root, "stage", address, code=None)
        ballast.drop()
        if told.returncode == 0:
            continue
        stopped += 1
        assert told.returncode == 2, told.stderr
        line = FULL.fullmatch(told.stderr.splitlines()[-1])  # before it, a warning may be about what nobody misses
        assert line, told.stderr
        assert line["file"].startswith(str(root))
        assert ((root / "dvc.lock").read_bytes() if (root / "dvc.lock").exists() else b"") == before
        graft(root, "stage", address)
    assert stopped > len(ADDRESSES) // 4
    ran(root)
    ends_well(root)
    assert ran(root) == []


def test_a_full_disk_where_dvc_remembers_hashes(done: Path, disk: Path, ends_well: Callable[[Path], None]) -> None:
    """By default that is /var/tmp: another disk than the project's, or the same."""
    site = {"DVC_SITE_CACHE_DIR": str(disk)}
    graft(done, "stage", "problems", **site)
    Ballast(disk).fill()
    told = graft(done, "stage", "--force", "problems", code=None, **site)
    if told.returncode:
        assert told.returncode == 2
        assert re.fullmatch(rf"graft: {disk}\S+: DVC's database of file hashes cannot be opened .+\n", told.stderr)
    ends_well(done)


REMEMBER = """
from dvc.fs import LocalFileSystem
from dvc_data.hashfile.hash_info import HashInfo
from flows.dvc_stages.patches.atomic_files import RecoveringState
from tests.support.small_disk import Ballast

state = RecoveringState({root!r}, {disk!r} + "/site")
Ballast(Path({disk!r})).fill()
for number in range(300):
    state.set_link(f"{{number}}" * 100, 1, "2")
    state.save(__file__, LocalFileSystem(), HashInfo("md5", "a" * 32), {{"size": number, "mtime": 1, "ino": 1}})
"""


def test_what_dvc_remembers_is_left_out_where_the_disk_is_full(tmp_path: Path, disk: Path) -> None:
    """Not tried for ever."""
    code = tmp_path / "code.py"
    code.write_text("from pathlib import Path\n" + REMEMBER.format(root=str(tmp_path), disk=str(disk)))
    subprocess.run([sys.executable, str(code)], timeout=60, check=True, env=environment(PYTHONPATH=str(REPOSITORY)))


def test_a_full_disk_where_prefect_keeps_its_history(done: Path, disk: Path) -> None:
    """Its temporary server cannot start, and says why in a line."""
    Ballast(disk).fill(leave=64 << 10)
    told = graft(done, "retrain", code=2, PREFECT_HOME=str(disk))
    assert re.fullmatch(
        r"graft: prefect: its server did not start \(.+\); graft doctor checks the disk.*\n", told.stderr
    )


def test_a_read_only_workspace_is_named(done: Path) -> None:
    with mounted(done, "--bind", str(done)):
        mount("-o", "remount,ro,bind", str(done))
        for command in (["retrain"], ["stage", "reward@1"], ["stage", "-S", "seed=3", "problems"]):
            told = graft(done, *command, code=2)
            assert re.fullmatch(rf"graft: {done}\S*: not writable \(Read-only file system\); .+\n", told.stderr), (
                command
            )
