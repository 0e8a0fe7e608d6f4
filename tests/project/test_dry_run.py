"""Law: a dry run says what a run would compute, why and for how long, and touches nothing."""

import re
import shutil
from pathlib import Path

import pytest

from flows.dvc_stages.dry_run import StaleStage, total
from flows.stages.durations import ExpectedSeconds, record_duration
from tasks.artifacts import digest_path
from tasks.layout import Layout
from tasks.params.file import load_params, override
from tests.support.tiny_project import ADDRESSES, dvc, graft, ran

AFTER_REWARD = [a for a in ADDRESSES[ADDRESSES.index("reward@1") :] if a != "evaluate@before"]
LAST = ["validate@1", "validate@2", "choose", "evaluate@before", "evaluate@after", "promote"]


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


def took(root: Path, seconds: float) -> None:
    params = load_params(root / "params.yaml")
    for address in ADDRESSES:
        for _ in range(5):
            record_duration(Layout(root), address, params, seconds)


def test_where_all_is_done_it_says_so(done: Path) -> None:
    assert told(done) == ({}, "Every stage is up to date: nothing would be computed.\n")


def test_a_param_that_is_not_written(done: Path) -> None:
    took(done, 90.0)
    steps, rest = told(done, "-S", "update.entropy=0.05")
    assert list(steps) == AFTER_REWARD[AFTER_REWARD.index("update@1") :]
    assert steps["update@1"] == ("~90.0 s", "param update.entropy: 0.0 → 0.05")
    assert steps["search@2"] == ("90.0 s", "after update@1")
    assert rest.startswith("11 stages: 3.0 minutes to 16.5 minutes.\n9 of these may stay as they are: ")
    assert rest.endswith("~ was measured with other values of update.entropy.\n")


@pytest.mark.slow
def test_more_rounds_and_a_preset_count_too(done: Path) -> None:
    took(done, 1.0)
    steps, _ = told(done, "--rounds", "3")
    assert steps["search@3"] == ("1.0 s", "never run")
    assert steps["validate@1"][1] == "param rounds.last: 2 → 3"
    assert "search@6" in told(done, "--preset", "small", "-S", "rounds=6")[0]


def test_an_output_that_is_missing_is_restored_and_its_readers_may_stay(done: Path) -> None:
    took(done, 90.0)
    shutil.rmtree(done / "run" / "policy")
    steps, rest = told(done)
    assert steps["choose"] == ("cached", "output run/policy: missing")
    assert rest.startswith("3 stages: 0.0 s to 3.0 minutes.\n2 of these may stay as they are")


@pytest.mark.slow
def test_results_of_an_earlier_run_are_at_hand(done: Path) -> None:
    graft(done, "stage", "-S", "evaluation.temperature=0.5", *LAST)
    graft(done, "stage", "-S", "evaluation.temperature=0.8", *LAST)
    ran(done)
    steps, _ = told(done, "-S", "evaluation.temperature=0.5")
    assert {a for a, (seconds, _) in steps.items() if seconds == "cached"} >= {"validate@1", "evaluate@before"}
    assert steps["promote"][0] != "cached"  # it looks at the champion
    steps, _ = told(done, "-S", "evaluation.temperature=0.7")
    assert list(steps) == LAST
    assert "cached" not in {seconds for seconds, _ in steps.values()}


def test_what_never_ran_is_unknown(done: Path) -> None:
    (done / "dvc.lock").unlink()
    shutil.rmtree(done / ".graft" / "seconds")
    shutil.rmtree(done / ".dvc" / "cache")
    steps, rest = told(done)
    assert steps == dict.fromkeys(ADDRESSES, ("unknown", "never run"))
    assert rest == "19 stages: unknown: none of these stages has ever run here.\n"
    Layout(done).seconds("problems").parent.mkdir()
    took(done, 1.0)
    Layout(done).seconds("promote").unlink()
    assert told(done)[1] == "19 stages: at least 18.0 s, and promote, of which nothing is known.\n"


@pytest.mark.slow
def test_both_drivers_note_how_long_a_stage_took(done: Path) -> None:
    shutil.rmtree(done / ".graft" / "seconds")
    override(done / "params.yaml", ["evaluation.temperature=0.5"])
    dvc(done, "repro", "-q", "--single-item", "validate@1")
    graft(done, "stage", "validate@2")
    noted = sorted(path.stem for path in (done / ".graft" / "seconds").iterdir())
    assert noted == ["validate@1", "validate@2"]
    assert ran(done) == ["validate@1", "validate@2"]
    steps, rest = told(done)
    assert steps["choose"][0] == "unknown"  # it did not run
    assert rest.startswith("4 stages: unknown: none of these stages has ever run here")


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [("update.betta=1", "did you mean 'update.beta'?"), ("policy.base=./nowhere", "no folder ./nowhere")],
)
def test_what_would_stop_a_run_stops_a_dry_one(done: Path, assignment: str, expected: str) -> None:
    before = contents(done)
    assert expected in graft(done, "retrain", "--dry-run", "-S", assignment, code=2).stderr
    assert contents(done) == before


def test_neither_prefect_nor_mlflow_is_started(done: Path) -> None:
    told(done, "-S", 'machine.tracking.uri="sqlite:///mlflow.db"')
    assert not (done / "mlflow.db").exists()
    assert not (done / ".graft" / "prefect").exists()


def step(stage_id: str, seconds: float | None, certain: bool = True, cached: bool = False) -> StaleStage:
    return StaleStage(
        stage_id, ["param seed: 0 → 1"], certain, cached, None if seconds is None else ExpectedSeconds(seconds)
    )


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([step("a", 30)], "30.0 s"),
        ([step("a", 30), step("b", 60, certain=False)], "30.0 s to 1.5 minutes"),
        ([step("a", 30), step("b", None)], "at least 30.0 s, and b, of which nothing is known"),
        (
            [step("a", None), step("b", 60, certain=False)],
            "at least 0.0 s to 1.0 minutes, and a, of which nothing is known",
        ),
        ([step("a", 30, cached=True)], "0.0 s"),
        ([step("a", None)], "unknown: none of these stages has ever run here"),
    ],
)
def test_the_sum(steps: list[StaleStage], expected: str) -> None:
    assert total(steps) == expected
