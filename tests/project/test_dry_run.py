"""Law: a dry run says what a run would compute, why and for how long, and touches nothing."""

import re
import shutil
from pathlib import Path

import pytest

from flows.stages.durations import record_duration
from tasks.artifacts import digest_path
from tasks.layout import Layout
from tests.support.tiny_project import ADDRESSES, graft, ran

AFTER_REWARD = [a for a in ADDRESSES[ADDRESSES.index("reward@1") :] if a != "evaluate@before"]


def told(root: Path, *arguments: str) -> tuple[dict[str, tuple[str, str]], str]:
    """Address → (seconds, why) of the stale stages as printed, and what follows; after seeing that nothing changed."""
    before = contents(root)
    printed = graft(root, "retrain", "--dry-run", *arguments).stdout
    assert contents(root) == before
    assert ran(root) == []
    steps, _, rest = printed.partition("\n\n")
    rows = [re.fullmatch(r"(\S+) +(\S+(?: s)?)  (.*)", line) for line in steps.splitlines()]
    return {row[1]: (row[2], row[3]) for row in rows if row}, rest or printed


def contents(root: Path) -> dict[str, str]:
    """Every file but DVC's own locks."""
    files = [p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return {str(p): digest_path(p) for p in files if not p.is_relative_to(root / ".dvc" / "tmp")}


def test_a_param_that_is_not_written_and_what_never_ran(done: Path) -> None:
    """Neither Prefect nor MLflow is started."""
    for address in ADDRESSES:
        record_duration(Layout(done), address, 90.0)
    assert told(done) == ({}, "Every stage is up to date: nothing would be computed.\n")
    steps, rest = told(done, "-S", "update.entropy=0.05", "-S", 'machine.tracking.uri="sqlite:///mlflow.db"')
    assert list(steps) == AFTER_REWARD[AFTER_REWARD.index("update@1") :]
    assert steps["update@1"] == ("90.0 s", "param update.entropy: 0.0 → 0.05")
    assert steps["search@2"] == ("90.0 s", "after update@1")
    assert rest.startswith("12 stages: 1080.0 s when they last ran here.")
    assert not (done / "mlflow.db").exists()
    assert not (done / ".graft" / "prefect").exists()
    (done / "dvc.lock").unlink()
    shutil.rmtree(done / ".graft" / "seconds")
    steps, rest = told(done)
    assert steps == dict.fromkeys(ADDRESSES, ("unknown", "never run"))
    assert rest.startswith("20 stages: 0.0 s when they last ran here.")


def test_what_would_stop_a_run_stops_a_dry_one(by_graft: Path) -> None:
    """The messages: tests/unit/flows/test_preflight.py."""
    before = contents(by_graft)
    assert (
        "no folder ./nowhere" in graft(by_graft, "retrain", "--dry-run", "-S", "policy.base=./nowhere", code=2).stderr
    )
    assert contents(by_graft) == before


@pytest.mark.slow
def test_more_rounds_and_a_preset_count_too(done: Path) -> None:
    steps, _ = told(done, "--rounds", "3")
    assert steps["search@3"][1] == "never run"
    assert steps["validate@1"][1] == "param rounds.last: 2 → 3"
    assert "search@6" in told(done, "--preset", "small", "-S", "rounds=6", "-S", "policy.base=a/b")[0]


def test_an_edited_stage_is_named_by_every_command_and_before_a_run(done: Path) -> None:
    """`update` taken out of the params of its stage, then another learning rate: DVC sees no change."""
    path = done / "dvc.yaml"
    text = path.read_text()
    before, after = "search.temperature, update, ppo]", "search.temperature, ppo]"
    assert before in text
    path.write_text(text.replace(before, after))
    line = (
        "dvc.yaml: update: params lacks update; git checkout dvc.yaml, or take the stage from the dvc.yaml that graft"
    )
    for command in (["status"], ["retrain", "--dry-run"], ["stage", "problems"]):
        told = graft(done, *command).stderr
        assert told.count(f"warning: {line}") == 1, command
