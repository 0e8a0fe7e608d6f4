"""The record of a run, read from its folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flows.reports.run_record import RunRecord, params_of_run, read_run_record
from tasks.artifacts import digest_path, read_json, read_jsonl, write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records.selection import REMEDY, Selected
from tasks.statistics.influence_histogram import BINS
from tests.support import finished_run


def lock(root: Path, stages: dict[str, dict[str, object]]) -> None:
    """A `dvc.lock` that says with which params each stage was computed."""
    with (root / "dvc.lock").open("w") as file:
        entries = {address: {"cmd": "x", "params": {"params.yaml": params}} for address, params in stages.items()}
        YAML().dump({"schema": "2.0", "stages": entries}, file)


def test_a_record_holds_all_results_of_a_run_and_no_path_of_its_machine(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=2)
    record = read_run_record(layout)
    assert record.rounds == 2
    assert record.test_sha256 == digest_path(layout.problems("test"))
    assert (record.params["update.beta"], record.params["evaluation.ks"]) == ("0.01", "[1, 5, 10]")
    assert not any(name.startswith(("tracking", "schedule")) for name in record.params)
    assert [len(record.outcomes[when]) for when in ("before", "after")] == [finished_run.PROBLEMS] * 2
    stages = ("evaluate@before", "evaluate@after", "reward@1", "reward@2", "update@1", "update@2")
    assert sorted(record.metrics) == sorted(stages)
    assert set(record.steps) == {"1", "2"}
    assert {name: len(values) for name, values in record.steps["2"].items()} == {"kl": 30, "entropy": 30}
    assert record.influence_round == 2
    assert len(record.influence) == BINS
    assert sum(bar.selected + bar.not_selected for bar in record.influence) == 40
    assert all(bar.selected == 0 for bar in record.influence if bar.high <= 0)
    assert record.tree is not None
    assert "tree 2" in record.tree
    example = record.examples[3]
    assert (example.problem_id, example.answer) == ("test-0003-sum", 5)
    assert example.after.right == record.outcomes["after"][3].greedy
    assert example.after.outcome == ("5" if example.after.right else "1")
    assert ("+" in example.after.completion) == example.after.right
    write_json(layout.account, record)
    assert read_json(layout.account, RunRecord) == record
    assert str(tmp_path) not in layout.account.read_text()


def test_rounds_of_an_earlier_longer_run_are_left_out(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=1)
    write_json(layout.metrics("reward", 2), {"epoch/mean_reward": 9.0})
    write_json(layout.metrics("validate", 1), {"pass_at_1": 0.5})
    assert {a for a in read_run_record(layout).metrics if a[-1].isdigit()} == {"reward@1", "update@1", "validate@1"}


def test_influence_is_that_of_the_last_round_that_measured_it(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=2)
    write_jsonl(layout.selection(2), [])
    assert read_run_record(layout).influence_round == 1
    write_jsonl(layout.selection(1), [])
    record = read_run_record(layout)
    assert (record.influence_round, record.influence, record.extremes) == (None, [], [])


def test_the_extremes_are_the_three_samples_at_each_end_with_their_completions(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=1)
    lines = {line.influence: line for line in read_jsonl(layout.selection(1), Selected)}
    influences = sorted(lines, key=lambda influence: -(influence or 0))
    record = read_run_record(layout)
    assert [one.influence for one in record.extremes] == [*influences[:3], *influences[-3:]]
    assert [one.selected for one in record.extremes] == [True] * 3 + [False] * 3
    assert all(one.completion == f"return {lines[one.influence].member}" for one in record.extremes)
    write_json(layout.account, record)
    assert read_json(layout.account, RunRecord) == record
    write_jsonl(layout.selection(1), [lines[influence] for influence in influences[:4]])
    assert [one.influence for one in read_run_record(layout).extremes] == influences[:4]  # none twice
    layout.trajectories(1).unlink()
    assert read_run_record(layout).extremes == []


def test_the_audits_of_all_rounds_are_kept_and_said(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=2)
    assert read_run_record(layout).audit_lines == []
    right = finished_run.make_audit("right")
    for number in (1, 2):
        write_json(layout.audit(number), right)
    assert read_run_record(layout).audit_lines == ["Rewards look right in every round."]
    erring = finished_run.make_audit("err")
    write_json(layout.audit(2), erring)
    record = read_run_record(layout)
    assert record.audits == {"1": right, "2": erring}
    assert record.audit_lines == [f"Round 1: {right.sentence}.", f"Round 2: {erring.sentence}.", f"{REMEDY}."]
    write_json(layout.account, record)
    assert read_json(layout.account, RunRecord) == record


def test_missing_trees_and_numbers_are_left_out(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=1)
    layout.tree(1).unlink()
    write_text(layout.steps(1), "step,kl\n1,nan\n2,0.5\n")
    record = read_run_record(layout)
    assert record.tree is None
    assert record.steps == {"1": {"kl": [None, 0.5]}}


def test_a_long_completion_is_cut(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    path = layout.evaluation("after") / "attempts.jsonl"
    write_text(path, path.read_text().replace("return n[0]", "x" * 5000))
    shown = read_run_record(layout).examples[0].after.completion
    assert len(shown) == 2000
    assert shown.endswith("x…")


def test_params_are_those_of_the_lock_not_of_an_edited_file(tmp_path: Path) -> None:
    edited = ("update.beta=0.5", "influence.selection=none", "policy.lora=null")
    layout = finished_run.write(tmp_path, rounds=2, assignments=edited)
    stages = {
        "update@1": {"seed": 0, "update": {"beta": 0.01, "epochs": 3}, "policy.lora": {"rank": 8}},
        "choose": {"seed": 0, "rounds.last": 2},
        "update@9": {"seed": 7},  # of an earlier, longer run
    }
    lock(tmp_path, stages)
    params = params_of_run(tmp_path)
    trained = {name: value for name, value in params.items() if name.startswith("update") or ".lora" in name}
    assert trained == {"update.beta": "0.01", "update.epochs": "3", "policy.lora.rank": "8"}
    assert params["seed"] == "0"
    assert params["policy.max_new_tokens"] == "64"  # of no stage in this lock
    assert read_run_record(layout).params == params


def test_a_run_of_two_settings_is_refused(tmp_path: Path) -> None:
    finished_run.write(tmp_path)
    lock(tmp_path, {"problems": {"seed": 1}, "bootstrap": {"seed": 0}, "choose": {"rounds.last": 2}})
    with pytest.raises(GraftError, match=r"two settings, seed is 1 for problems and 0 for bootstrap; bring it up"):
        params_of_run(tmp_path)


BROKEN: dict[str, Callable[[Layout], object]] = {
    r"no finished run, .*promotion\.json is missing; run graft retrain": lambda run: run.promotion.unlink(),
    r"reward@1\.json: no metrics": lambda run: run.metrics("reward", 1).write_text("[]"),
    r"update@1\.csv: no table .* graft stage update@1": lambda run: write_text(run.steps(1), "step,kl\n1\n"),
    r"params\.yaml:\d: not YAML": lambda run: (run.root / "params.yaml").write_text("a: ["),
    r"dvc\.lock: holds nothing": lambda run: (run.root / "dvc.lock").write_text(""),
    r"attempts\.jsonl: no such file": lambda run: (run.evaluation("after") / "attempts.jsonl").unlink(),
}


@pytest.mark.parametrize("error", BROKEN)
def test_what_is_broken_is_named(tmp_path: Path, error: str) -> None:
    layout = finished_run.write(tmp_path)
    BROKEN[error](layout)
    with pytest.raises(GraftError, match=error):
        read_run_record(layout)
