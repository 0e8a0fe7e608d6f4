"""Against a real sqlite store: a sample of completions, as a reader of MLflow's traces sees it."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import write_json, write_jsonl
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records import Problem, Result, Sibling
from tasks.tracking.recorder import Recorder
from tasks.tracking.tags import WORKSPACE
from tasks.tracking.trace_sample import COUNT
from tasks.tracking.traces import TEXT_LENGTH
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import changed, write_rewarded
from tests.support.selections import selected_by_influence
from tests.support.stage_params import shipped_params

MAKE = Callable[..., RewardedTrajectory]
OUT = "run/rounds/{}/selection.jsonl"
FAILURE = Result(status="error", error="ValueError: no")
SPANS = ["completion", "problem", "sibling 1"]
SIBLING = Sibling(question="2 and 2?", answer=4)


@pytest.fixture
def layout(tmp_path: Path, make_trajectory: MAKE, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """Two rounds of ten problems with three completions each, one of which is right, one wrong and one invalid."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    layout = Layout(tmp_path)
    results = [Result(status="ok", value=3), Result(status="ok", value=1.5), FAILURE]
    for number in (1, 2):
        groups = []
        for name in range(10):
            problem = Problem(problem_id=f"p{name}", question="2 and 1?", answer=3, source="t", siblings=[SIBLING])
            changes = {"problem": problem, "result": results, "sibling_results": [[result] for result in results]}
            groups.append(changed(make_trajectory(f"p{name}", [1.0, 0.0, 0.0]), **changes))
        groups[0] = changed(groups[0], code=["x" * 2 * TEXT_LENGTH] * 3)
        lines = [line for group in groups for line in selected_by_influence(group, [0.5, -0.5, None])]
        write_rewarded(layout.trajectories(number), groups)
        write_jsonl(layout.selection(number), lines)
        write_json(layout.metrics("select", number), {"kept": 1})
    return layout


def params(layout: Layout) -> Params:
    return shipped_params(machine={"tracking": {"uri": uri(layout)}}, rounds={"last": 2})


def uri(layout: Layout) -> str:
    return f"sqlite:///{layout.root}/mlflow.db"


def record(layout: Layout, cached: bool = False, times: int = 1) -> str:
    recorder = Recorder(layout, params(layout), {WORKSPACE: "here"})
    for number in (1, 2):
        for _ in range(times):
            recorder.stage(f"select@{number}", 1.0, cached, {}, {OUT.format(number): "c" * 32})
    run_id = recorder.finish("FINISHED")
    assert run_id is not None
    return run_id


def traces(layout: Layout, run_id: str) -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(uri(layout))
    experiment = client.get_run(run_id).info.experiment_id
    return list(client.search_traces(locations=[experiment], run_id=run_id))


@pytest.mark.slow
def test_a_run_has_traces_of_its_rounds_each_once(layout: Layout) -> None:
    run_id = record(layout, times=2)  # the same message twice, as after an answer that was lost
    found = traces(layout, run_id)
    assert len(found) == COUNT
    assert Counter(trace.info.tags["round"] for trace in found) == {"1": COUNT // 2, "2": COUNT // 2}
    assert {trace.info.tags["outcome"] for trace in found} == {"right", "wrong", "invalid"}
    for trace in found:
        root, completion, problem, sibling = trace.data.spans
        assert [span.parent_id for span in trace.data.spans] == [None, *[root.span_id] * 3]
        assert [span.name for span in trace.data.spans] == [trace.info.tags["mlflow.traceName"], *SPANS]
        assert (root.inputs, problem.inputs) == ({"question": "2 and 1?", "expected": 3},) * 2
        assert sibling.inputs == {"question": "2 and 2?", "expected": 4}
        assert completion.outputs == root.outputs["completion"]
        assert len(completion.outputs) < TEXT_LENGTH + 40
        invalid = trace.info.tags["outcome"] == "invalid"
        assert problem.outputs == {"status": "error" if invalid else "ok", "value": root.outputs["value"]}
        assert (problem.status.status_code.value, trace.info.state.value) == (("ERROR" if invalid else "OK"),) * 2
        assert problem.status.description == ("error: ValueError: no" if invalid else "")
        assert root.attributes["reward.correctness"] == float(trace.info.tags["outcome"] == "right")
        assert (root.attributes["advantage"], root.attributes["round"]) == (1.0, int(trace.info.tags["round"]))
        assert {span.start_time_ns for span in trace.data.spans} == {span.end_time_ns for span in trace.data.spans}

    again = record(layout, cached=True)
    assert traces(layout, again) == []  # the run that computed the rounds has them


@pytest.mark.slow
def test_a_round_that_cannot_be_read_costs_its_traces_only(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    layout.trajectories(1).write_text("{")
    found = traces(layout, record(layout))
    assert {trace.info.tags["round"] for trace in found} == {"2"}
    assert "traces of round 1 left out" in capfd.readouterr().err
