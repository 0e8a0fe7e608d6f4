"""What a run has to tell, read from its folder."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from flows.reports.run_record import RunRecord, params_of_run, read_run_record
from tasks.artifacts import digest_path, read_json, write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.statistics.influence_extremes import BINS
from tests.support import finished_run


def lock(root: Path, stages: dict[str, dict[str, object]]) -> None:
    """A `dvc.lock` that says with which params each stage was computed."""
    with (root / "dvc.lock").open("w") as file:
        entries = {address: {"cmd": "x", "params": {"params.yaml": params}} for address, params in stages.items()}
        YAML().dump({"schema": "2.0", "stages": entries}, file)


def test_an_account_holds_the_whole_run(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=2)
    account = read_run_record(layout)
    assert account.rounds == 2
    assert account.test_sha256 == digest_path(layout.problems("test"))
    assert account.params["grpo.beta"] == "0.01"
    assert account.params["evaluation.ks"] == "[1, 5, 10]"
    assert not any(name.startswith(("tracking", "schedule")) for name in account.params)
    assert [len(account.outcomes[when]) for when in ("before", "after")] == [finished_run.PROBLEMS] * 2
    assert set(account.metrics) == {f"{s}@{n}" for s in ("reward", "update") for n in (1, 2)} | {
        "evaluate@before",
        "evaluate@after",
    }
    assert set(account.steps) == {"1", "2"}
    assert {name: len(values) for name, values in account.steps["2"].items()} == {"kl": 30, "entropy": 30}
    assert account.influence_round == 2
    assert len(account.influence) == BINS
    assert sum(bar.selected + bar.not_selected for bar in account.influence) == 40
    assert all(bar.selected == 0 for bar in account.influence if bar.high <= 0)
    assert account.tree is not None
    assert "tree 2" in account.tree
    example = account.examples[3]
    assert (example.problem_id, example.answer) == ("test-0003-sum", 5)
    assert example.after.right == account.outcomes["after"][3].greedy
    assert example.after.outcome == ("5" if example.after.right else "1")
    assert ("+" in example.after.completion) == example.after.right


def test_an_account_survives_being_written_and_read(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    account = read_run_record(layout)
    write_json(layout.account, account)
    assert read_json(layout.account, RunRecord) == account


def test_rounds_that_a_longer_run_left_are_not_of_this_one(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=1)
    write_json(layout.metrics("reward", 2), {"epoch/mean_reward": 9.0})
    write_json(layout.metrics("validate", 1), {"pass_at_1": 0.5})
    assert {a for a in read_run_record(layout).metrics if a[-1].isdigit()} == {"reward@1", "update@1", "validate@1"}


def test_influence_is_of_the_last_round_that_measured_it(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=2)
    write_jsonl(layout.selection(2), [])
    assert read_run_record(layout).influence_round == 1
    write_jsonl(layout.selection(1), [])
    account = read_run_record(layout)
    assert (account.influence_round, account.influence) == (None, [])


def test_what_is_not_there_to_tell_is_left_out(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path, rounds=1)
    layout.tree(1).unlink()
    write_text(layout.steps(1), "step,kl\n1,nan\n2,0.5\n")
    account = read_run_record(layout)
    assert account.tree is None
    assert account.steps == {"1": {"kl": [None, 0.5]}}


def test_a_completion_without_end_is_cut(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    path = layout.evaluation("after") / "attempts.jsonl"
    write_text(path, path.read_text().replace("return n[0]", "x" * 5000))
    shown = read_run_record(layout).examples[0].after.completion
    assert len(shown) == 2000
    assert shown.endswith("x…")


def test_params_are_those_of_the_lock_not_of_an_edited_file(tmp_path: Path) -> None:
    layout = finished_run.write(
        tmp_path, rounds=2, assignments=("grpo.beta=0.5", "influence.selection=none", "policy.lora=null")
    )
    stages = {
        "update@1": {"seed": 0, "grpo": {"beta": 0.01, "epochs": 3}, "policy.lora": {"rank": 8}},
        "choose": {"seed": 0, "rounds.last": 2},
        "update@9": {"seed": 7},  # of an earlier, longer run
    }
    lock(tmp_path, stages)
    params = params_of_run(tmp_path)
    assert {name: params[name] for name in params if name.startswith("grpo")} == {
        "grpo.beta": "0.01",
        "grpo.epochs": "3",
    }
    assert {name: params[name] for name in params if ".lora" in name} == {"policy.lora.rank": "8"}
    assert params["seed"] == "0"
    assert params["policy.max_new_tokens"] == "64"  # of no stage in this lock
    assert read_run_record(layout).params == params


def test_a_run_of_two_settings_is_refused(tmp_path: Path) -> None:
    finished_run.write(tmp_path)
    lock(tmp_path, {"problems": {"seed": 1}, "bootstrap": {"seed": 0}, "choose": {"rounds.last": 2}})
    with pytest.raises(GraftError, match=r"two settings, seed is 1 for problems and 0 for bootstrap; bring it up"):
        params_of_run(tmp_path)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda layout: layout.promotion.unlink(), r"no finished run, .*promotion\.json is missing; run graft retrain"),
        (lambda layout: layout.metrics("reward", 1).write_text("[]"), r"reward@1\.json: no metrics"),
        (
            lambda layout: write_text(layout.steps(1), "step,kl\n1\n"),
            r"update@1\.csv: no table .* graft stage update@1",
        ),
        (lambda layout: (layout.root / "params.yaml").write_text("a: ["), r"params\.yaml:\d: not YAML"),
        (lambda layout: (layout.root / "dvc.lock").write_text(""), r"dvc\.lock: holds nothing"),
        (lambda layout: (layout.evaluation("after") / "attempts.jsonl").unlink(), r"attempts\.jsonl: no such file"),
    ],
)
def test_what_is_broken_is_named(tmp_path: Path, broken: object, told: str) -> None:
    layout = finished_run.write(tmp_path)
    broken(layout)  # type: ignore[operator]
    with pytest.raises(GraftError, match=told):
        read_run_record(layout)


def test_an_account_has_no_path_of_its_machine(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    assert str(tmp_path) not in json.dumps(read_run_record(layout).model_dump())
