"""The registered model, against real sqlite stores."""

import pytest

from tasks.artifacts import write_json
from tasks.layout import Layout
from tasks.promotion_records import Champion
from tasks.tracking.recorder import update_registry
from tests.support.mlflow_runs import POLICY, REASON, decide, record, store, tracking
from tests.support.servers import free_port


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
