"""Runs recorded in a sqlite store of MLflow, and what is there afterwards."""

from typing import Any

from tasks.artifacts import write_json
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.promotion import Champion
from tasks.tracking.recorder import Recorder
from tasks.tracking.tags import WORKSPACE
from tests.support.records import make_promotion
from tests.support.stage_params import shipped_params

POLICY = "run/policy"
LOCAL = "sqlite:///mlflow.db"
REASON = "promoted: 0.7 beats …"


def tracking(uri: str = LOCAL) -> Params:
    return shipped_params(machine={"tracking": {"uri": uri}})


def decide(layout: Layout, version: str, promoted: bool) -> None:
    write_json(layout.promotion, make_promotion(promoted=promoted, reason=REASON, version=version))
    if promoted:
        write_json(layout.champion / "champion.json", Champion(version=version, test_sha256="0"))


def record(layout: Layout, params: Params, cached: bool = False, **tags: str) -> str | None:
    """The MLflow run of a retraining of two rounds."""
    recorder = Recorder(layout, params, {"prefect.flow_run_id": "f-1", **tags})
    recorder.stage("problems", 0.5, cached, {}, {f"run/problems/{s}.jsonl": f"md5-{s}" for s in ("train", "test")})
    for number in (1, 2):
        deps = {f"run/rounds/{number}/trajectories.jsonl": "t" * 32, "tasks/reward/task.py": "s" * 32}
        outs = {f"run/rounds/{number}/rewards.jsonl": "r" * 32, f"run/metrics/reward@{number}.json": "m" * 32}
        recorder.stage(f"reward@{number}", 2.0, cached, deps, outs)
        policy = {f"run/rounds/{number}/policy": f"p{number}.dir"}
        recorder.stage(f"update@{number}", 3.0, cached, {}, policy)
    recorder.stage("evaluate@after", 1.0, cached, {"run/problems/test.jsonl": "md5-test", POLICY: "p.dir"}, {})
    recorder.stage("promote", 1.0, cached, {POLICY: "p.dir"}, {})
    return recorder.finish("FINISHED")


def record_stage(layout: Layout, stage: str, out: str, cached: bool = False) -> str:
    """The MLflow run in which this stage wrote this file."""
    recorder = Recorder(layout, tracking(), {WORKSPACE: "here"})
    recorder.stage(stage, 1.0, cached, {}, {out: "c" * 32})
    run_id = recorder.finish("FINISHED")
    assert run_id is not None
    return run_id


def store(layout: Layout) -> Any:
    """The default store, opened after the run: opening one creates it."""
    from mlflow import MlflowClient

    assert (layout.root / "mlflow.db").exists()
    return MlflowClient(f"sqlite:///{layout.root}/mlflow.db")


def children(client: Any, run_id: str) -> dict[str, Any]:
    experiment = client.get_run(run_id).info.experiment_id
    found = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run_id}'")
    return {child.info.run_name: child for child in found}


def update_recorded(layout: Layout, cached: bool) -> Any:
    """The MLflow run of an update in a retraining of its own."""
    run_id = record_stage(layout, "update@1", "run/plots/update@1.csv", cached)
    return children(store(layout), run_id)["update@1"]


def parent_of(run: Any) -> str:
    return str(run.data.tags["mlflow.parentRunId"])
