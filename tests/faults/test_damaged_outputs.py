"""Law: an output that is deleted or damaged is restored or rebuilt; success is never reported without the file.

Damage of the cache itself is judged by `graft` alone: `dvc` takes a write-protected cached file at its word.
"""

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.aftermath import Bytes, bytes_of
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import ADDRESSES, dvc, graft, ran

pytestmark = pytest.mark.slow

FILE = "run/rounds/1/rewards.jsonl"
INNER = "run/rounds/1/policy/weights.bin"


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, 5)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def flip_a_bit_unseen(path: Path) -> None:
    """Same size, same inode, same modification time to the nanosecond."""
    before = path.stat()
    flip_a_bit(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_harmed_folder_is_restored(done: Path) -> None:
    policy = done / "run/rounds/1/policy"
    before = contents(policy)
    for harm in (lambda: shutil.rmtree(policy), lambda: (policy / "stray.txt").write_text("not of this stage\n")):
        harm()
        assert "update@1         restored" in graft(done, "stage", "update@1").stdout
        assert contents(policy) == before
    assert ran(done) == []


@pytest.mark.parametrize("harm", nightly_but_first([flip_a_bit_unseen, truncate, delete]))
def test_each_output_of_each_stage_is_restored(done: Path, undisturbed: Bytes, harm: Callable[[Path], None]) -> None:
    for path in [path for path in (done / "run").rglob("*") if path.is_file()]:
        harm(path)
    printed = graft(done, "stage", *ADDRESSES).stdout.splitlines()
    assert [line.split()[:2] for line in printed[:-1]] == [[address, "restored"] for address in ADDRESSES[:-1]]
    assert bytes_of(done) == undisturbed
    assert ran(done) in ([], ["promote"])  # whose verdict is not kept for long: it is about the champion of the moment


@pytest.mark.parametrize("harm", nightly_but_first([flip_a_bit, delete]))
def test_dvc_restores_what_graft_wrote(done: Path, harm: Callable[[Path], None]) -> None:
    good = (done / FILE).read_bytes()
    harm(done / FILE)
    dvc(done, "repro", "-q", "--single-item", "reward@1")
    assert (done / FILE).read_bytes() == good
    assert ran(done) == []


@pytest.mark.parametrize("harm", nightly_but_first([flip_a_bit_unseen, truncate, delete]))
def test_a_harmed_cached_copy_is_noticed_and_the_stage_computed_again(done: Path, harm: Callable[[Path], None]) -> None:
    """The output is gone as well, so that the cache is all there is. It stays write-protected, as DVC left it."""
    good = (done / INNER).read_bytes()
    lock = (done / "dvc.lock").read_bytes()
    copies = [p for p in (done / ".dvc/cache/files").rglob("*") if p.is_file() and p.read_bytes() == good]
    assert len(copies) == 1
    with_write_access(copies[0], harm)
    shutil.rmtree(done / "run/rounds/1/policy")
    assert "update@1         ran" in graft(done, "stage", "update@1").stdout
    assert (done / INNER).read_bytes() == copies[0].read_bytes() == good
    assert (done / "dvc.lock").read_bytes() == lock
    assert ran(done) == ["update@1"]


def test_without_any_cache_all_is_computed_again(done: Path) -> None:
    lock = (done / "dvc.lock").read_bytes()
    shutil.rmtree(done / ".dvc/cache")
    shutil.rmtree(done / "run")
    graft(done, "stage", "problems", "coldstart", "bootstrap")
    assert ran(done) == ["problems", "coldstart", "bootstrap"]
    assert (done / "dvc.lock").read_bytes() == lock


@pytest.mark.parametrize("days", nightly_but_first([400, -4000]))
def test_times_of_files_mean_nothing(done: Path, days: int, ends_well: Callable[[Path], None]) -> None:
    """Old, or of the future; and of one the content has changed as well, with its times as they were."""
    then = time.time() + days * 86_400
    for path in [done / "dvc.lock", done / "params.yaml", *(done / "run").rglob("*"), *(done / ".dvc").rglob("*")]:
        os.utime(path, (then, then))
    changed = done / "run" / "rounds" / "1" / "selection.jsonl"
    content = changed.read_bytes()
    changed.write_bytes(content[:-2] + b"!\n")
    os.utime(changed, (then, then))
    told = graft(done, "stage", *ADDRESSES)
    assert [line.split()[0] for line in told.stdout.splitlines() if "unchanged" not in line] == ["select@1"]
    ends_well(done)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def with_write_access(path: Path, harm: Callable[[Path], None]) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    assert mode == 0o444
    path.chmod(0o644)
    harm(path)
    if path.exists():
        path.chmod(mode)
