"""Law: from the same commit and params `graft` and `dvc repro` write the same bytes; either finds the other done."""

import shutil
from hashlib import md5
from pathlib import Path

import pytest
from dvc.repo import Repo
from mlflow import MlflowClient

from flows.stages.dvc_yaml import parse, stage_ids
from flows.stages.sources import SOURCES
from tests.support.params_file import override
from tests.support.tiny_project import ADDRESSES, EVALUATE, NOTHING, dvc, graft, ran


def test_what_a_stage_wrote_is_known_to_dvc_without_reading_it(done: Path) -> None:
    files = [done / "run" / "plots" / "update@1.csv", done / "run" / "rounds" / "1" / "policy" / "weights.bin"]
    graft(done, "stage", "--force", "update@1")
    repo = Repo(str(done))
    for file in files:
        _, known = repo.state.get(str(file), repo.fs)
        assert known.value == md5(file.read_bytes()).hexdigest()


def test_the_flow_names_the_stages_in_the_order_of_dvc(by_graft: Path) -> None:
    assert stage_ids(2) == ADDRESSES
    assert list(parse(by_graft / "dvc.lock")["stages"]) == [SOURCES, *ADDRESSES]


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


@pytest.mark.slow
def test_what_dvc_computed_is_recorded_by_the_next_retrain(done: Path, prefect_api: str) -> None:
    """`dvc repro` alone records nothing; after it a run and a child for each stage, with nothing computed again."""
    override(done / "params.yaml", ["evaluation.temperature=0.5", "machine.tracking.uri=sqlite:///mlflow.db"])
    dvc(done, "repro", "-q")
    assert ran(done) == EVALUATE
    assert not (done / "mlflow.db").exists()
    graft(done, "retrain", PREFECT_API_URL=prefect_api)
    assert ran(done) == []
    client = MlflowClient(f"sqlite:///{done}/mlflow.db")
    runs = client.search_runs(["1"], order_by=["attributes.start_time"])
    (parent,) = [one for one in runs if "mlflow.parentRunId" not in one.data.tags]
    children = [one for one in runs if one.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert sorted(one.info.run_name for one in children) == sorted(ADDRESSES)
    assert {one.info.status for one in runs} == {"FINISHED"}
