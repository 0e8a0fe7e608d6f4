"""Law: from the same commit and params `graft` and `dvc repro` write the same bytes; either finds the other done."""

import shutil
from collections.abc import Callable
from hashlib import md5
from pathlib import Path

import pytest
from dvc.repo import Repo

from flows.stages.dvc_yaml import parse, stage_ids
from flows.stages.sources import SOURCES
from tasks.params.file import override
from tests.support import tiny_project
from tests.support.tiny_project import ADDRESSES, NOTHING, dvc, graft, ran, run


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_lock_results_and_caches_are_identical(by_dvc: Path, by_graft: Path) -> None:
    assert (by_dvc / "dvc.lock").read_bytes() == (by_graft / "dvc.lock").read_bytes()
    results = files_of(by_dvc / "run")
    assert results == files_of(by_graft / "run")
    assert {"promotion.json", "rounds/2/policy/weights.bin", "metrics/evaluate@after.json"} <= results.keys()
    assert files_of(by_dvc / ".dvc" / "cache") == files_of(by_graft / ".dvc" / "cache")


def test_after_dvc_graft_has_nothing_to_do(by_dvc: Path, copy: Callable[[Path], Path]) -> None:
    root = copy(by_dvc)
    printed = graft(root, "stage", *ADDRESSES).stdout.splitlines()
    assert [line.split()[:2] for line in printed] == [[address, "unchanged"] for address in ADDRESSES]
    assert ran(root) == []


def test_after_graft_dvc_has_nothing_to_do(done: Path) -> None:
    before = (done / "dvc.lock").read_bytes()
    dvc(done, "repro", "-q")
    assert dvc(done, "status", "--json").stdout.strip() == NOTHING
    assert (ran(done), (done / "dvc.lock").read_bytes()) == ([], before)


def test_what_a_stage_wrote_is_known_to_dvc_without_reading_it(done: Path) -> None:
    files = [done / "run" / "rounds" / "1" / "rewards.jsonl", done / "run" / "rounds" / "1" / "policy" / "weights.bin"]
    graft(done, "stage", "--force", "reward@1", "update@1")
    repo = Repo(str(done))
    for file in files:
        _, known = repo.state.get(str(file), repo.fs)
        assert known.value == md5(file.read_bytes()).hexdigest()


def test_a_run_leaves_nothing_for_git_but_the_lock(by_graft: Path) -> None:
    assert run(by_graft, "git", "status", "--porcelain").stdout == "?? dvc.lock\n"


def test_the_flow_names_the_stages_in_the_order_of_dvc(by_graft: Path) -> None:
    assert stage_ids(2) == ADDRESSES
    assert list(parse(by_graft / "dvc.lock")["stages"]) == [SOURCES, *ADDRESSES]


def test_single_stages_agree_when_forced(done: Path) -> None:
    before = (done / "dvc.lock").read_bytes()
    graft(done, "stage", "--force", "search@2")
    dvc(done, "repro", "-q", "--force", "--single-item", "update@1")
    assert ran(done) == ["search@2", "update@1"]
    assert (done / "dvc.lock").read_bytes() == before


def test_a_stage_alone_records_its_sources_where_the_lock_is_gone(done: Path) -> None:
    """Though the files are there: what is not in dvc.lock is not in the commit either."""
    before = parse(done / "dvc.lock")["stages"]
    (done / "dvc.lock").unlink()
    graft(done, "stage", "search@1")
    stages = parse(done / "dvc.lock")["stages"]
    assert list(stages.items()) == [(name, before[name]) for name in (SOURCES, "search@1")]
    assert dvc(done, "status", "--json", SOURCES, "search@1").stdout.strip() == NOTHING


@pytest.mark.slow
def test_a_lock_that_was_there_becomes_the_same_by_either(done: Path, tmp_path: Path, prefect_api: str) -> None:
    """In the order of its entries too; and `graft retrain` leaves the file alone that `dvc repro` wrote."""
    override(done / "params.yaml", ["rounds=3"])
    other = Path(shutil.copytree(done, tmp_path / "other"))
    before = (done / "dvc.lock").read_bytes()
    dvc(done, "repro", "-q")
    graft(other, "stage", *stage_ids(3))
    lock = done / "dvc.lock"
    assert before != lock.read_bytes() == (other / "dvc.lock").read_bytes()
    written = lock.stat()
    graft(done, "retrain", PREFECT_API_URL=prefect_api)
    assert (lock.stat().st_ino, lock.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_project_of_one_round_has_one_round(tmp_path: Path) -> None:
    root = tiny_project.make(tmp_path / "project", rounds=1)
    listed = dvc(root, "stage", "list", "--name-only").stdout.split()
    assert listed == [SOURCES, *(address for address in ADDRESSES if not address.endswith("@2"))]
