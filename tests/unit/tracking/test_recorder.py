"""Against real sqlite stores, a real server and real sockets that do not answer."""

import getpass
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import write_json, write_jsonl, write_text
from tasks.core.metrics_files import flatten
from tasks.layout import Layout
from tasks.params.params import RUN_ONLY_SECTIONS, Params
from tasks.records import Champion, RewardedTrajectory, Succession, SuccessionKind
from tasks.tracking.mlflow_ledger import Ledger, parent_name
from tasks.tracking.mlflow_limits import valid_name
from tasks.tracking.recorder import WORKSPACE, Recorder, update_registry
from tasks.tracking.retention import find_expired
from tests.support.records import make_promotion
from tests.support.selections import selected_by_influence
from tests.support.servers import free_port, mlflow_server
from tests.support.stage_params import shipped_params

POLICY = "run/policy"
LOCAL = "sqlite:///mlflow.db"
REASON = "promoted: 0.7 beats …"
MAKE = Callable[..., RewardedTrajectory]


def tracking(uri: str = LOCAL, seconds: float = 60) -> Params:
    return shipped_params(tracking={"uri": uri, "seconds": seconds})


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """What a run of two rounds leaves, as far as tracking reads it."""
    layout = Layout(tmp_path)
    write_json(layout.metrics("problems"), {"train": 200})
    for number in (1, 2):
        numbers = {"epoch/mean_reward": 0.1 * number, "epoch/accumulated_reward": 100.0 * number, "failed": 0}
        write_json(layout.metrics("reward", number), numbers)
    write_json(layout.metrics("evaluate", "after"), {"pass_at_1": 0.7, "pass_at_1_low": 0.6})
    write_json(layout.metrics("promote"), {"promoted": 1})
    decide(layout, "aaaa", promoted=True)
    (tmp_path / "dvc.lock").write_text("schema: '2.0'\n")
    return layout


def decide(layout: Layout, version: str, promoted: bool) -> None:
    write_json(layout.promotion, make_promotion(promoted=promoted, reason=REASON, version=version))
    if promoted:
        write_json(layout.champion / "champion.json", Champion(version=version, test_sha256="0"))


def record(layout: Layout, params: Params, cached: bool = False) -> str | None:
    """The MLflow run of a retraining."""
    recorder = Recorder(layout, params, {"prefect.flow_run_id": "f-1"})
    recorder.stage("problems", 0.5, cached, {}, {f"run/problems/{s}.jsonl": f"md5-{s}" for s in ("train", "test")})
    for number in (1, 2):
        deps = {f"run/rounds/{number}/trajectories.jsonl": "t" * 32, "tasks/rewards/task.py": "s" * 32}
        outs = {f"run/rounds/{number}/rewarded.jsonl": "r" * 32, f"run/metrics/reward@{number}.json": "m" * 32}
        recorder.stage(f"reward@{number}", 2.0, cached, deps, outs)
    recorder.stage("evaluate@after", 1.0, cached, {"run/problems/test.jsonl": "md5-test", POLICY: "p.dir"}, {})
    recorder.stage("promote", 1.0, cached, {POLICY: "p.dir"}, {})
    return recorder.finish("FINISHED")


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


def store(layout: Layout) -> Any:
    """The default store, opened after the run: opening one creates it."""
    from mlflow import MlflowClient

    assert (layout.root / "mlflow.db").exists()
    return MlflowClient(f"sqlite:///{layout.root}/mlflow.db")


def children(client: Any, run_id: str) -> dict[str, Any]:
    experiment = client.get_run(run_id).info.experiment_id
    found = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run_id}'")
    return {child.info.run_name: child for child in found}


@pytest.mark.slow
def test_a_run_and_its_cached_repetition_are_recorded(layout: Layout) -> None:
    params = tracking()
    for cached in (False, True):
        run_id = record(layout, params, cached)
        assert run_id is not None
        client = store(layout)
        parent = client.get_run(run_id)
        assert parent.info.status == "FINISHED"
        assert parent.data.params == flatten(params.model_dump(exclude=RUN_ONLY_SECTIONS))
        assert parent.data.params["grpo.group_size"] == str(params.grpo.group_size)
        assert parent.data.tags["prefect.flow_run_id"] == "f-1"
        assert parent.data.tags["dvc_lock_md5"] == hashlib.md5((layout.root / "dvc.lock").read_bytes()).hexdigest()
        assert parent.data.tags["mlflow.source.name"] == layout.root.name
        assert parent.data.tags["mlflow.user"] == getpass.getuser()
        assert parent.data.metrics["evaluate_after/pass_at_1"] == 0.7
        for name, values in (("epoch/mean_reward", [0.1, 0.2]), ("epoch/accumulated_reward", [100.0, 200.0])):
            history = client.get_metric_history(run_id, name)
            assert [(point.step, point.value) for point in history] == [(1, values[0]), (2, values[1])]
        digests = {(i.dataset.name, i.dataset.digest) for i in parent.inputs.dataset_inputs}
        assert digests == {("train", "md5-train"), ("test", "md5-test")}

        stages = children(client, run_id)
        assert set(stages) == {"problems", "reward@1", "reward@2", "evaluate@after", "promote"}
        reward = stages["reward@2"]
        assert (reward.data.metrics["failed"], reward.data.metrics["seconds"]) == (0, 2.0)
        tags = {"cached": json.dumps(cached), "dep.tasks/rewards/task.py": "s" * 32}
        assert reward.data.tags.items() >= {**tags, "out.run/metrics/reward_2.json": "m" * 32}.items()
        assert reward.info.end_time - reward.info.start_time == 2000
        assert stages["evaluate@after"].inputs.dataset_inputs[0].dataset.digest == "md5-test"

    versions = client.search_model_versions("name = 'graft'")
    assert [v.tags["version"] for v in versions] == ["aaaa"]  # one, though two runs ended with this policy
    assert (versions[0].tags["dvc_md5"], versions[0].tags["path"]) == ("p.dir", POLICY)
    assert client.get_model_version_by_alias("graft", "champion").tags["version"] == "aaaa"

    decide(layout, "bbbb", promoted=False)
    assert record(layout, params)
    assert client.get_model_version_by_alias("graft", "challenger").tags["version"] == "bbbb"
    assert client.get_model_version_by_alias("graft", "champion").tags["version"] == "aaaa"


Step = tuple[SuccessionKind, str, str | None]


def succession(layout: Layout, *steps: Step) -> None:
    """The champion and its history after these changes."""
    history = [
        Succession(version=version, replaced=replaced, how=how, reason=f"because {n}", time=f"2026-11-22T18:00:0{n}Z")
        for n, (how, version, replaced) in enumerate(steps)
    ]
    write_jsonl(layout.champion / "history.jsonl", history)
    write_json(layout.champion / "champion.json", Champion(version=history[-1].version, test_sha256="0"))


@pytest.mark.slow
def test_the_registry_holds_each_succession_with_its_reason_and_those_it_missed(layout: Layout) -> None:
    params = tracking()
    promoted: list[Step] = [("promoted", "aaaa", None), ("promoted", "bbbb", "aaaa")]
    succession(layout, *promoted[:1])
    record(layout, params)
    decide(layout, "bbbb", promoted=False)
    succession(layout, *promoted)
    record(layout, params)
    client = store(layout)

    def tags(alias: str) -> dict[str, str]:
        return dict(client.get_model_version_by_alias("graft", alias).tags)

    gate = {"gate": "promoted at 2026-11-22T18:00:01Z: because 1", "champion_until": ""}
    assert tags("champion").items() >= {"version": "bbbb", "replaced": "aaaa", **gate}.items()

    succession(layout, *promoted, ("rolled back", "aaaa", "bbbb"))
    assert update_registry(layout, params) is None
    assert tags("champion") == {
        "version": "aaaa",
        "decision": REASON,
        "path": POLICY,
        "dvc_md5": "p.dir",
        "gate": "rolled back at 2026-11-22T18:00:02Z: because 2",
        "champion_since": "2026-11-22T18:00:02Z",
        "champion_until": "",
        "replaced": "bbbb",
        "replaced_by": "",
        "replaced_because": "",
    }
    lost = {"gate": "taken back at 2026-11-22T18:00:02Z: because 2"}
    lost["replaced_because"] = "aaaa was rolled back: because 2"
    assert tags("challenger").items() >= {"version": "bbbb", **lost}.items()
    runs = len(client.search_runs([client.get_experiment_by_name("graft").experiment_id]))

    assert update_registry(layout, tracking(f"http://127.0.0.1:{free_port()}")) is not None
    later: list[Step] = [("promoted", "cccc", "aaaa"), ("promoted", "dddd", "cccc")]
    succession(layout, *promoted, ("rolled back", "aaaa", "bbbb"), *later)  # by dvc repro, which records nothing
    assert update_registry(layout, params) is None
    assert tags("champion").items() >= {"version": "dddd", "replaced": "cccc"}.items()
    versions = client.search_model_versions("name = 'graft'")
    assert {version.tags["version"] for version in versions} == {"aaaa", "bbbb", "dddd"}
    assert len(client.search_runs([client.get_experiment_by_name("graft").experiment_id])) == runs


@pytest.mark.slow
def test_old_runs_are_kept_if_their_policy_was_champion_or_their_lock_is_needed(layout: Layout) -> None:
    params = tracking(f"sqlite:///{layout.root}/mlflow.db")
    made = []
    for version, promoted in (("aaaa", True), ("bbbb", True), ("cccc", False), ("dddd", False), ("eeee", False)):
        decide(layout, version, promoted)
        (layout.root / "dvc.lock").write_text(version)
        recorder = Recorder(layout, params, {WORKSPACE: "here"})
        recorder.stage("promote", 1.0, False, {POLICY: f"{version}.dir"}, {})
        made.append(recorder.finish("FINISHED"))
    needed = {hashlib.md5(b"dddd").hexdigest()}
    goes, stays, remove = find_expired(layout.root, params.tracking, "here", 1, needed, {"aaaa"})
    assert [run for run, _ in goes] == made[2:3]
    assert [line.partition(": ")[2] for line in stays] == [
        "its dvc.lock is in the workspace, in git or of a kept run",
        "its policy has an alias",  # the champion of now
        "its policy is or was champion",
    ]
    remove()
    left = store(layout).search_model_versions("name = 'graft'")
    assert {version.tags["version"] for version in left} == {"aaaa", "bbbb", "dddd", "eeee"}


@pytest.mark.slow
def test_mlflow_refuses_to_load_a_registered_policy(layout: Layout) -> None:
    """mlflow.transformers reloads a peft model with wrong weights, and says so in a log line only."""
    import mlflow
    from mlflow.exceptions import MlflowException

    record(layout, tracking())
    mlflow.set_tracking_uri(f"sqlite:///{layout.root}/mlflow.db")
    try:
        for load in (mlflow.transformers.load_model, mlflow.pyfunc.load_model):
            with pytest.raises(MlflowException):
                load("models:/graft@champion")
    finally:
        mlflow.set_tracking_uri("")


def record_stage(layout: Layout, stage: str, out: str, cached: bool = False, times: int = 1) -> str:
    """The MLflow run in which this stage wrote this file."""
    recorder = Recorder(layout, tracking(), {WORKSPACE: "here"})
    for _ in range(times):
        recorder.stage(stage, 1.0, cached, {}, {out: "c" * 32})
    run_id = recorder.finish("FINISHED")
    assert run_id is not None
    return run_id


@pytest.mark.slow
def test_pictures_tables_and_pages_are_artifacts_of_the_run(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    """A file that is missing does not keep the next from being stored, and a table of templates is no curve."""
    recorder = Recorder(layout, tracking(), {})
    contents = {"page.html": "a page", "plots/evaluate@after.csv": "template,greedy\neggs,0.5\n"}
    for number in (1, 2):
        contents[f"rounds/{number}/tree.svg"] = f"<svg>{number}</svg>"
        write_json(layout.metrics("search", number), {"solved": number})
        outs = {f"run/rounds/{number}/tree.svg": "t" * 32, f"run/rounds/{number}/workflows": "w" * 32}
        write_text(layout.tree(number), contents[f"rounds/{number}/tree.svg"])
        recorder.stage(f"search@{number}", 1.0, False, {}, outs)
    write_text(layout.by_template("after"), contents["plots/evaluate@after.csv"])
    recorder.stage("evaluate@after", 1.0, False, {}, {"run/plots/evaluate@after.csv": "c" * 32})
    write_text(layout.page, contents["page.html"])
    recorder.files(layout.account, layout.page)
    run_id = recorder.finish("FINISHED")
    (warning,) = capfd.readouterr().err.splitlines()
    assert "account.json" in warning
    client = store(layout)
    folders = ("", "plots", "rounds/1", "rounds/2")
    listed = [file.path for folder in folders for file in client.list_artifacts(run_id, folder) if not file.is_dir]
    assert sorted(listed) == sorted(contents)
    for path, content in contents.items():
        assert Path(client.download_artifacts(run_id, path, str(layout.root))).read_text() == content
    assert client.get_run(run_id).info.status == "FINISHED"
    child = children(client, str(run_id))["evaluate@after"]
    assert not any(name.startswith("step/") for name in child.data.metrics)


@pytest.mark.slow
def test_the_steps_of_an_update_are_curves_and_its_speed_is_only_that_of_computed_runs(layout: Layout) -> None:
    """A cached update has only their last points and the run of the others, as long as the store has that run."""
    write_json(layout.metrics("update", 1), {"kl": 0.5})
    write_json(layout.speed("update@1"), {"tokens_per_second": 1234.5})
    write_text(layout.steps(1), "step,kl,clip_ratio/low_mean\n1,0.25,0\n2,1e-05,0.5\n")
    computed, cached, again = (update_recorded(layout, cached) for cached in (False, True, True))
    for own in (computed, cached, again):
        new = own is computed
        for name, values in {"step/kl": [0.25, 1e-05], "step/clip_ratio/low_mean": [0, 0.5], "kl": [0.5]}.items():
            history = [(point.step, point.value) for point in store(layout).get_metric_history(own.info.run_id, name)]
            assert history == list(enumerate(values, start=1))[0 if new else -1 :]
        assert own.data.metrics.get("tokens_per_second") == (1234.5 if new else None)
        assert own.data.tags["curves"] == ("here" if new else computed.info.run_id)
        parent = store(layout).get_run(parent_of(own))
        assert parent.data.metrics.get("update/tokens_per_second") == (1234.5 if new else None)
    store(layout).delete_run(computed.info.run_id)
    last = update_recorded(layout, cached=True)
    assert len(store(layout).get_metric_history(last.info.run_id, "step/kl")) == 2
    assert last.data.tags["curves"] == "here"


@pytest.mark.slow
def test_a_run_is_kept_with_the_curves_that_a_kept_run_needs(layout: Layout) -> None:
    write_json(layout.metrics("update", 1), {"kl": 0.5})
    write_text(layout.steps(1), "step,kl\n1,0.25\n2,1e-05\n")
    first, second, last = (update_recorded(layout, cached) for cached in (False, True, True))
    settings = tracking(f"sqlite:///{layout.root}/mlflow.db").tracking
    goes, stays, remove = find_expired(layout.root, settings, "here", 1, set(), set())
    assert [run for run, _ in goes] == [parent_of(second)]
    assert any("it has curves of a run that stays" in line for line in stays)
    remove()
    assert last.data.tags["curves"] == first.info.run_id
    assert len(store(layout).get_metric_history(first.info.run_id, "step/kl")) == 2


def update_recorded(layout: Layout, cached: bool) -> Any:
    """The MLflow run of an update in a retraining of its own."""
    run_id = record_stage(layout, "update@1", "run/plots/update@1.csv", cached)
    return children(store(layout), run_id)["update@1"]


def parent_of(run: Any) -> str:
    return str(run.data.tags["mlflow.parentRunId"])


SELECTION = "run/rounds/1/selection.jsonl"


def select(layout: Layout, trajectory: RewardedTrajectory, influences: list[float | None]) -> None:
    """Write the files of the select stage of round 1."""
    write_jsonl(layout.selection(1), selected_by_influence(trajectory, influences))
    write_jsonl(layout.rewarded(1), [trajectory])
    write_json(layout.metrics("select", 1), {"number": 7})


def table(layout: Layout, run: Any, file: str) -> Any:
    """A table of a run as MLflow loads it, which only finds files that are tagged as tables."""
    from mlflow import set_tracking_uri

    set_tracking_uri(f"sqlite:///{layout.root}/mlflow.db")
    try:
        return store(layout).load_table(run.info.experiment_id, file, [run.info.run_id])
    finally:
        set_tracking_uri("")


@pytest.mark.slow
def test_the_extremes_of_influence_and_its_histogram_are_tables_of_the_select_stage(
    layout: Layout, make_trajectory: MAKE, capfd: pytest.CaptureFixture[str]
) -> None:
    trajectory = make_trajectory("p", [0.04 * member for member in range(25)])
    rng = random.Random(0)
    influences = [rng.gauss(0, 1e-11) for _ in range(25)]
    select(layout, trajectory, influences)
    run_id = record_stage(layout, "select@1", SELECTION, times=2)  # as after a delivery that failed: no row is doubled
    assert capfd.readouterr().err == ""
    client = store(layout)
    own = children(client, run_id)["select@1"]
    assert client.list_artifacts(run_id) == []
    assert {f.path for f in client.list_artifacts(own.info.run_id)} == {"influence.json", "influence_histogram.json"}

    ends = table(layout, own, "influence.json")
    order = sorted(range(25), key=lambda member: -influences[member])
    shown = [*order[:10], *reversed(order[-10:])]
    assert list(ends["end"]) == ["most"] * 10 + ["least"] * 10
    assert list(ends["rank"]) == [*range(1, 11), *range(1, 11)]
    assert list(ends["influence"]) == pytest.approx([influences[member] for member in shown], rel=1e-12, abs=0)
    assert list(ends["code"]) == [trajectory.workflow_codes[member] for member in shown]
    assert list(ends["reward"]) == pytest.approx([trajectory.rewards[member] for member in shown])
    assert list(ends["selected"]) == [influences[member] > 0 for member in shown]
    assert set(ends["question"]) == {"p?"}

    bins = table(layout, own, "influence_histogram.json")
    assert list(bins.columns) == ["low", "high", "selected", "not_selected"]
    positive = sum(influence > 0 for influence in influences)
    assert (bins["selected"].sum(), bins["not_selected"].sum()) == (positive, 25 - positive)
    assert (bins["selected"][bins["high"] <= 0].sum(), bins["not_selected"][bins["low"] >= 0].sum()) == (0, 0)


@pytest.mark.slow
def test_influence_that_was_not_measured_is_no_table(
    layout: Layout, make_trajectory: MAKE, capfd: pytest.CaptureFixture[str]
) -> None:
    select(layout, make_trajectory("p", [1.0, 0.0]), [None, None])
    run_id = record_stage(layout, "select@1", SELECTION)
    assert capfd.readouterr().err == ""
    client = store(layout)
    assert client.list_artifacts(children(client, run_id)["select@1"].info.run_id) == []


def other_trajectories(layout: Layout, make: MAKE) -> None:
    select(layout, make("p", [1.0, 0.0]), [1.0, -1.0])
    write_jsonl(layout.rewarded(1), [make("other", [1.0, 0.0])])


DAMAGES: dict[str, tuple[str, Callable[[Layout, MAKE], None], list[str]]] = {
    "run/plots/update@1.csv": (
        "update",
        lambda layout, _: write_text(layout.steps(1), "step,kl\n1\n"),
        ["steps of update@1 left out (run/plots/update@1.csv"],
    ),
    SELECTION: (
        "select",
        other_trajectories,
        ["influence of select@1 left out", "rewarded.jsonl (('p', 'p-0'))", "run graft stage select@1"],
    ),
    "run/rounds/1/tree.svg": ("search", lambda *_: None, ["tree.svg"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("out", DAMAGES)
def test_a_file_that_is_missing_or_broken_costs_no_number(
    layout: Layout, make_trajectory: MAKE, capfd: pytest.CaptureFixture[str], out: str
) -> None:
    stage, damage, warnings = DAMAGES[out]
    write_json(layout.metrics(stage, 1), {"number": 7})
    damage(layout, make_trajectory)
    run_id = record_stage(layout, f"{stage}@1", out)
    printed = capfd.readouterr().err
    for warning in warnings:
        assert warning in printed
    client = store(layout)
    assert [point.value for point in client.get_metric_history(run_id, f"{stage}/number")] == [7]
    assert client.get_run(run_id).info.status == "FINISHED"


@pytest.mark.slow
def test_runs_that_create_the_store_at_the_same_time_do_not_harm_each_other(layout: Layout) -> None:
    recorders = [Recorder(layout, tracking(), {}) for _ in range(3)]
    runs = [recorder.finish("FAILED") for recorder in recorders]
    assert len(set(runs)) == 3
    client = store(layout)
    assert [client.get_run(run).info.status for run in runs] == ["FAILED"] * 3


@pytest.mark.slow
def test_a_run_that_dies_is_marked_so(layout: Layout) -> None:
    recorder = Recorder(layout, tracking(), {})
    recorder.stage("problems", 0.1, False, {}, {})
    recorder._messages.put(None)  # closes the pipe without a finish, as the death of this process would
    assert recorder._process is not None
    assert recorder._process.wait(60) == 0
    answer = recorder._answer(recorder._process)
    assert answer is not None
    assert store(layout).get_run(answer["run_id"]).info.status == "KILLED"


@pytest.mark.slow
def test_a_closed_run_is_delivered_whether_or_not_it_is_waited_for(layout: Layout) -> None:
    recorder = Recorder(layout, tracking(), {})
    process = recorder._process
    assert process is not None
    assert recorder.wait() is None  # it is not closed
    recorder.close("FINISHED", line="all is well")
    assert process.wait(60) == 0
    (run,) = store(layout).search_runs(["1"])
    assert (run.info.status, run.data.tags["line"]) == ("FINISHED", "all is well")
    assert recorder.wait() == recorder.wait() == run.info.run_id


class BlackHole:
    """A server on loopback that accepts every connection and never answers."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.taken: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http://user:secret@127.0.0.1:{self.listener.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                self.taken.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.taken:
            connection.close()


@pytest.fixture
def black_hole() -> Iterator[BlackHole]:
    hole = BlackHole()
    yield hole
    hole.close()


def test_a_server_that_never_answers_costs_the_limit_and_no_more(
    layout: Layout, black_hole: BlackHole, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3600")  # MLflow itself would wait for an hour
    recorder = Recorder(layout, tracking(black_hole.uri, seconds=2), {})
    outs = {f"run/out/{i}": "m" * 5000 for i in range(100)}  # 500 kB a message: far more than a pipe holds
    for number in (1, 2):
        recorder.stage(f"reward@{number}", 1.0, False, {}, outs)
    while not black_hole.taken:
        time.sleep(0.05)
    process = recorder._process
    assert process is not None
    assert recorder.finish("FINISHED") is None
    assert process.poll() is not None  # nothing is left behind
    (warning,) = capfd.readouterr().err.splitlines()
    assert all(part in warning for part in ("no answer within 2 s", "tracking.uri"))
    assert "secret" not in warning


def test_a_registry_that_never_answers_costs_the_limit_and_no_more(layout: Layout, black_hole: BlackHole) -> None:
    succession(layout, ("promoted", "aaaa", None))
    assert update_registry(layout, tracking(black_hole.uri, seconds=2)) == "no answer within 2 s"
    assert update_registry(layout, tracking("")) is None


def test_a_dead_port_and_a_file_that_is_no_database_are_warnings(
    layout: Layout, capfd: pytest.CaptureFixture[str]
) -> None:
    (layout.root / "mlflow.db").write_text("this is no database, " * 100)
    for uri, remedy in ((f"http://127.0.0.1:{free_port()}", "start the server"), (LOCAL, "not a database")):
        assert record(layout, tracking(uri)) is None
        (warning,) = capfd.readouterr().err.splitlines()
        assert remedy in warning


def test_metrics_that_cannot_be_read_are_left_out_and_named(layout: Layout, capfd: pytest.CaptureFixture[str]) -> None:
    layout.metrics("reward", 2).write_text('{"epoch/mean_reward": "high"}')
    run_id = record(layout, tracking())
    assert run_id is not None
    assert "reward@2.json" in capfd.readouterr().err
    client = store(layout)
    assert [point.step for point in client.get_metric_history(run_id, "epoch/mean_reward")] == [1]
    assert "reward@2" in children(client, run_id)


def test_an_empty_uri_records_nothing(layout: Layout) -> None:
    Recorder(layout, tracking(""), {}).files(layout.page)
    assert record(layout, tracking("")) is None
    assert not (layout.root / "mlflow.db").exists()


@pytest.mark.slow
def test_a_server_receives_what_was_recorded_while_it_was_away(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    ledger = Ledger(uri, "early")
    ledger.add({"kind": "start", "time": 1.8e9, "params": {"a": "1"}, "tags": {}, "view": "{}"})
    stage = {"kind": "stage", "stage_id": "reward@1", "seconds": 1.0, "cached": False, "deps": {}, "outs": {}}
    ledger.add({**stage, "time": 1.8e9 + 1, "metrics": {"epoch/mean_reward": 0.5}})
    assert len(ledger.deliver()) == 1
    assert ledger.run_id is None

    with mlflow_server(tmp_path, port=port) as server:
        server.ready()
        ledger.add({"kind": "finish", "status": "FINISHED", "time": 1.8e9 + 2, "tags": {}})
        assert ledger.deliver() == []
        run_id = record(layout, tracking(uri, seconds=120))
    client = store(layout)
    early = client.get_run(ledger.run_id)
    assert early.info.status == "FINISHED"
    assert early.data.params == {"a": "1"}
    assert early.data.metrics == {"epoch/mean_reward": 0.5, "seconds/reward": 1.0}
    assert run_id is not None
    assert client.get_run(run_id).data.metrics["evaluate_after/pass_at_1"] == 0.7
    assert len(children(client, run_id)) == 5
    assert client.get_model_version_by_alias("graft", "champion").tags["version"] == "aaaa"


@pytest.mark.slow
def test_a_server_that_is_killed_keeps_what_it_had_received(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with mlflow_server(tmp_path) as server:
        server.ready()
        recorder = Recorder(layout, tracking(server.url, seconds=60), {})
        recorder.stage("reward@1", 2.0, False, {}, {})
        client: Any = MlflowClient(server.url)
        limit = time.monotonic() + 120
        while not (taken := _finished_stages(client)) and time.monotonic() < limit:
            time.sleep(0.1)
        os.killpg(server.process.pid, signal.SIGKILL)
        recorder.stage("reward@2", 2.0, False, {}, {})
        recorder.finish("FINISHED")
        printed = capfd.readouterr().err
        assert printed.startswith(f"warning: MLflow ({server.url}): ")
        assert "the results under" in printed
    assert _finished_stages(store(layout)) == taken == ["reward@1"]


def _finished_stages(client: Any) -> list[str]:
    found = client.search_experiments(filter_string="name = 'graft'")
    runs = client.search_runs([found[0].experiment_id], "attributes.status = 'FINISHED'") if found else []
    return [run.info.run_name for run in runs]


def test_the_main_process_never_imports_mlflow() -> None:
    script = "import tasks.tracking.recorder, sys; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_mlflow_accepts_the_names() -> None:
    assert valid_name("out.run/metrics/search@1.json") == "out.run/metrics/search_1.json"
    names = {("reward@2", "epoch/mean_reward"): "epoch/mean_reward", ("reward@2", "failed"): "reward/failed"}
    names |= {("evaluate@after", "pass_at_1"): "evaluate_after/pass_at_1", ("promote", "low"): "promote/low"}
    assert {given: parent_name(*given) for given in names} == names


def test_params_are_flattened_by_their_dotted_names() -> None:
    nested = {"a": {"b": [1, 2], "c": {1: 0}}, "d": "x", "e": None}
    assert flatten(nested) == {"a.b": "[1, 2]", "a.c.1": "0", "d": "x", "e": "null"}
