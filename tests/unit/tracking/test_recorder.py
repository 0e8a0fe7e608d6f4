"""Recording of runs and the registered model, against real sqlite stores."""

import getpass
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.artifacts import write_json, write_text
from tasks.core.loopback import free_port
from tasks.core.metrics_files import flatten
from tasks.layout import Layout
from tasks.params.params import dump_stage_params
from tasks.records.promotion import Champion
from tasks.tracking.recorder import Recorder, update_registry
from tasks.tracking.tags import LOCK, RUN_NAME
from tests.support.mlflow_runs import POLICY, REASON, children, decide, record, store, tracking


@pytest.mark.slow
def test_a_run_is_recorded_with_its_stages(layout: Layout) -> None:
    params = tracking()
    run_id = record(layout, params, **{RUN_NAME: "1 · first run"})
    assert run_id is not None
    client = store(layout)
    parent = client.get_run(run_id)
    assert (parent.info.status, parent.info.run_name) == ("FINISHED", "1 · first run")
    assert parent.data.params == flatten(dump_stage_params(params))
    assert parent.data.params["update.group_size"] == str(params.update.group_size)
    assert parent.data.tags["prefect.flow_run_id"] == "f-1"
    assert parent.data.tags[LOCK] == hashlib.md5((layout.root / "dvc.lock").read_bytes()).hexdigest()
    assert parent.data.tags["mlflow.source.name"] == layout.root.name
    assert parent.data.tags["mlflow.user"] == getpass.getuser()

    stages = children(client, run_id)
    each = {f"{stage}@{number}" for stage in ("reward", "update") for number in (1, 2)}
    assert set(stages) == {"problems", *each, "evaluate@after", "promote"}
    reward = stages["reward@2"]
    assert (reward.data.metrics["failed"], reward.data.metrics["seconds"]) == (0, 2.0)
    tags = {"cached": "false", "dep.tasks/reward/task.py": "s" * 32}
    assert reward.data.tags.items() >= {**tags, "out.run/metrics/reward_2.json": "m" * 32}.items()
    assert reward.info.end_time - reward.info.start_time == 2000


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
    answer = recorder._read_answer(recorder._process)
    assert store(layout).get_run(answer.run_id).info.status == "KILLED"


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


def test_the_main_process_never_imports_mlflow() -> None:
    script = "import tasks.tracking.recorder, sys; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_params_are_flattened_by_their_dotted_names() -> None:
    nested = {"a": {"b": [1, 2], "c": {1: 0}}, "d": "x", "e": None}
    assert flatten(nested) == {"a.b": "[1, 2]", "a.c.1": "0", "d": "x", "e": "null"}


@pytest.mark.slow
def test_the_registry_has_the_policy_of_each_run_and_follows_champion_and_challenger(layout: Layout) -> None:
    params = tracking()
    record(layout, params)
    decide(layout, "bbbb", promoted=True)
    challenger = Champion(version="bbbb", test_sha256="0")
    write_json(layout.challenger / "champion.json", challenger)
    record(layout, params)
    client = store(layout)

    def tags(alias: str) -> dict[str, str]:
        return dict(client.get_model_version_by_alias("graft", alias).tags)

    made = {"version": "bbbb", "decision": REASON, "path": POLICY, "dvc_md5": "p.dir"}
    assert tags("champion") == tags("challenger") == made
    version = client.get_model_version_by_alias("graft", "champion")
    assert version.status == "READY"  # although the headline begins as NaN
    runs = len(client.search_runs(["1"]))
    decide(layout, "aaaa", promoted=True)  # as a rollback does
    assert update_registry(layout, tracking(f"http://127.0.0.1:{free_port()}")) is not None
    assert tags("champion")["version"] == "bbbb"
    assert update_registry(layout, params) is None
    assert (tags("champion")["version"], tags("challenger")["version"]) == ("aaaa", "bbbb")
    write_json(layout.challenger / "champion.json", challenger.model_copy(update={"version": "cccc"}))
    assert update_registry(layout, params) is None
    assert (tags("champion")["version"], tags("challenger")["version"]) == ("aaaa", "cccc")
    (layout.challenger / "champion.json").unlink()
    decide(layout, "dddd", promoted=True)  # by dvc repro, which records nothing
    assert update_registry(layout, params) is None
    assert tags("champion") == {"version": "dddd", "path": "champion/policy"}
    assert client.get_registered_model("graft").aliases.keys() == {"champion"}
    assert len(client.search_runs(["1"])) == runs


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
