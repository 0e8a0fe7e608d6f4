"""Old runs in MLflow, against real sqlite stores."""

import hashlib

import pytest

from tasks.artifacts import write_json, write_text
from tasks.layout import Layout
from tasks.tracking.recorder import Recorder
from tasks.tracking.retention import find_expired
from tasks.tracking.tags import WORKSPACE
from tests.support.mlflow_runs import POLICY, decide, parent_of, store, tracking, update_recorded


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
    goes, stays, remove = find_expired(layout.root, params.machine.tracking, "here", 1, needed, {"aaaa"})
    assert [run for run, _ in goes] == made[2:3]
    assert [line.partition(": ")[2] for line in stays] == [
        "its dvc.lock is in the workspace, in git or of a kept run",
        "its policy has an alias",  # the champion of now
        "its policy is or was champion",
    ]
    remove()
    left = store(layout).search_model_versions("name = 'graft'")
    assert {version.tags["version"] for version in left} == {"aaaa", "bbbb", "dddd", "eeee"}
    models = store(layout).search_logged_models(["1"])
    assert {model.name for model in models} == {"policy-aaaa", "policy-bbbb", "policy-dddd", "policy-eeee"}


@pytest.mark.slow
def test_a_run_is_kept_with_the_curves_that_a_kept_run_needs(layout: Layout) -> None:
    write_json(layout.metrics("update", 1), {"kl": 0.5})
    write_text(layout.steps(1), "step,kl\n1,0.25\n2,1e-05\n")
    first, second, last = (update_recorded(layout, cached) for cached in (False, True, True))
    settings = tracking(f"sqlite:///{layout.root}/mlflow.db").machine.tracking
    goes, stays, remove = find_expired(layout.root, settings, "here", 1, set(), set())
    assert [run for run, _ in goes] == [parent_of(second)]
    assert any("it has curves of a run that stays" in line for line in stays)
    remove()
    assert last.data.tags["curves"] == first.info.run_id
    assert len(store(layout).get_metric_history(first.info.run_id, "step/kl")) == 2
