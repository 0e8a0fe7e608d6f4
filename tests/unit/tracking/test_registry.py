"""The registered model and its LoggedModels, against real sqlite stores."""

import pytest

from tasks.layout import Layout
from tasks.tracking.recorder import update_registry
from tests.support.mlflow_runs import POLICY, REASON, Step, decide, record, store, succession, tracking
from tests.support.servers import free_port


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
