"""Law: what the last run left stands only where nothing at all has changed since; else DVC judges."""

import os
import sys
import time
from collections.abc import Callable
from hashlib import md5
from pathlib import Path

import pytest

from flows.dvc_stages import snapshot as module
from flows.dvc_stages.pipeline import Stages
from flows.dvc_stages.snapshot import AT_ONCE, TICK, Untouched, leave, md5_of, untouched
from flows.retrain import _stages
from flows.stages.result import StageResult
from flows.stages.sources import SOURCES
from tasks.errors import GraftError
from tasks.params.file import load_params
from tests.support import tiny_project
from tests.support.tiny_project import ADDRESSES, graft

ALL = [SOURCES, *ADDRESSES]


@pytest.fixture
def left(done: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace as a run left it."""
    run(done, monkeypatch)
    return done


def run(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[StageResult]:
    monkeypatch.chdir(root)
    stages = Stages(root)
    outcomes = [stages.run(address) for address in ALL]
    stages.leave()
    return outcomes


def test_it_says_what_dvc_said(done: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = run(done, monkeypatch)
    found = untouched(done, ALL)
    assert found is not None
    for before in judged:
        after = found.run(before.address)
        assert (after.how, after.deps, after.outs) == ("unchanged", before.deps, before.outs)
    assert list(found.stale().items()) == list(Stages(done).stale().items())


def set_back(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """The change, and the file's own time as it was."""

    def changed(path: Path) -> None:
        times = path.stat()
        change(path)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    return changed


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n")


def add_below(path: Path) -> None:
    (path / "more.txt").write_text("")


def link(path: Path) -> None:
    """The same content by way of a link."""
    path.symlink_to(path.rename(path.parents[4] / "elsewhere"))


DISTURBED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a flipped bit, its time set back": ("run/rounds/1/trajectories.jsonl", set_back(flip)),
    "a flipped bit in a folder": ("run/rounds/2/policy/below/other.py", set_back(flip)),
    "a file longer": ("run/rounds/1/rewarded.jsonl", append),
    "a file gone": ("run/evaluation/after/weights.bin", Path.unlink),
    "a file of one output gone": ("run/promotion.json", Path.unlink),
    "a file more": ("run/rounds/1/workflows", add_below),
    "a link in the place of a file": ("run/rounds/1/policy/weights.bin", link),
    "a source": ("tasks/rewards/task.py", append),
    "a param's comment": ("params.yaml", append),
    "the stages": ("dvc.yaml", append),
    "what DVC has": ("dvc.lock", append),
    "what DVC ignores": (".dvcignore", append),
    "DVC's settings": (".dvc/config", append),
    "DVC's own settings here": (".dvc/config.local", append),
    "a cached copy gone": (".dvc/cache/files/md5", lambda store: next(store.glob("*/*")).unlink()),
    "all cached copies gone": (".dvc/cache/files/md5", lambda store: store.rename(store.with_name("gone"))),
    "another version of DVC": ("dvc.yaml", lambda _: None),
}


@pytest.mark.parametrize("name", DISTURBED)
def test_any_change_is_left_to_dvc(left: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, disturb = DISTURBED[name]
    disturb(left / path)
    if name == "another version of DVC":
        monkeypatch.setattr(module, "version", lambda _: "0.0.0")
    assert untouched(left, ALL) is None


def test_what_no_stage_reads_changes_nothing(left: Path) -> None:
    (left / "README.md").write_text("new")
    (left / "run" / "page.html").write_text("new")
    (left / "tasks" / "__pycache__").mkdir(exist_ok=True)
    (left / "tasks" / "__pycache__" / "more.pyc").write_bytes(b"")
    assert untouched(left, ALL) is not None


def test_a_stage_that_it_does_not_know_is_left_to_dvc(left: Path) -> None:
    assert untouched(left, [*ALL, "search@3"]) is None


def test_a_damaged_note_is_none(left: Path) -> None:
    note = left / ".graft" / "untouched.json"
    content = note.read_bytes()
    for place in (*range(0, len(content), 97), len(content) - 1):
        damaged = bytearray(content)
        damaged[place] ^= 4
        for broken in (bytes(damaged), content[:place], content[place + 1 :]):
            note.write_bytes(broken)
            assert untouched(left, ALL) is None
    note.write_bytes(content)
    assert untouched(left, ALL) is not None


@pytest.mark.parametrize(("later", "stands"), [(TICK / 2, False), (TICK + 1, True)])
def test_a_file_is_believed_to_be_the_one_that_was_read_only_where_a_change_would_show(
    tmp_path: Path, later: float, stands: bool
) -> None:
    """Read within the same tick of the clock it may have been changed since and look the same."""
    file = tmp_path / "out"
    file.write_text("changed since, within the tick")
    info = file.stat()
    stamp = (info.st_ino, info.st_size, info.st_mtime, info.st_ctime)
    seen = {str(file): (stamp, "0" * 32, info.st_ctime + later)}
    leave(tmp_path, [str(file)], seen, [], [StageResult("a", "ran", 1.0, {}, {})])
    assert (untouched(tmp_path, ["a"]) is not None) == stands


def test_a_file_is_read_again_until_its_time_tells(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def counted(path: Path, size: int) -> str:
        read.append(path)
        return md5_of(path, size)

    monkeypatch.setattr(module, "md5_of", counted)
    now = time.time()
    assert untouched(left, ALL) is not None
    assert read  # they were written a moment ago
    monkeypatch.setattr(time, "time", lambda: now + TICK + 1)
    assert untouched(left, ALL) is not None
    read.clear()
    assert untouched(left, ALL) is not None
    assert read == []


@pytest.mark.parametrize("change", [append, Path.unlink])
def test_a_file_that_changes_while_a_run_ends_is_not_noted(
    left: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(left)
    stages = Stages(left)
    for address in ALL:
        stages.run(address)
    for name in ("trajectories.jsonl", "rewarded.jsonl"):
        change(left / "run" / "rounds" / "1" / name)
    stages.leave()
    assert not (left / ".graft" / "untouched.json").exists()


def test_of_too_many_files_no_note_is_made(left: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    run(left, monkeypatch)
    assert untouched(left, ALL) is None


def test_a_run_asks_dvc_only_where_there_is_something_to_ask(left: Path) -> None:
    params = load_params(left / "params.yaml")
    assert isinstance(_stages(left, params, pull=False), Untouched)
    with pytest.raises(GraftError, match="--pull: this project has no remote"):  # DVC is asked, and has none
        _stages(left, params, pull=True)
    append(left / "run" / "best.json")
    assert isinstance(_stages(left, params, pull=False), Stages)


@pytest.mark.slow
def test_the_second_of_two_cached_runs_does_without_dvc_and_tells_the_same(done: Path) -> None:
    told = []
    for _ in range(2):
        ended = graft(done, "retrain")
        told.append([line.split()[:2] for line in ended.stdout.splitlines() if " unchanged " in line])
    assert told[0] == told[1] != []
    code = "import sys; from flows.cli.main import main; sys.argv = ['graft', 'retrain']\ntry: main()\n"
    code += "finally: print('dvc.repo' in sys.modules)"
    assert tiny_project.run(done, sys.executable, "-c", code).stdout.endswith("False\n")


@pytest.mark.parametrize("size", [0, 1, AT_ONCE, AT_ONCE + 1])
def test_the_md5_of_a_file_is_that_of_its_bytes(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"\1" * size)
    assert md5_of(tmp_path / "file", size) == md5(b"\1" * size).hexdigest()
