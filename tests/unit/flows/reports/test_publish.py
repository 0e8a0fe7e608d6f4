"""Parameters on the page of a flow run, and params that differ below the summary."""

from pathlib import Path

from flows.history.run_history import Changes
from flows.reports.publish import parameters, with_params
from tasks.params.file import load_params

PARAMS = load_params(Path(__file__).parents[4] / "params.yaml")


def test_they_are_what_was_set_and_the_commit_with_a_note_of_other_changes() -> None:
    tags = {"git_commit": "58dd976f" + "0" * 32, "git_dirty": "false"}
    shown = parameters(PARAMS, {"seed": ("0", "5"), "update.beta": ("0.0", "0.1")}, "small", tags)
    last = PARAMS.rounds.last
    assert shown == {
        "preset": "small",
        "params": "seed=5 update.beta=0.1",
        "base": "scratch",
        "rounds": last,
        "commit": "58dd976f",
    }
    assert parameters(PARAMS, {}, None, tags | {"git_dirty": "true"}) == {
        "preset": "none",
        "params": "as committed",
        "base": "scratch",
        "rounds": last,
        "commit": "58dd976f with uncommitted changes",
    }
    assert parameters(PARAMS, {}, None, {})["commit"] == "none"


def test_a_table_of_the_params_that_differ_from_the_commit_and_one_of_those_from_the_run_before() -> None:
    assert with_params("decided", None, {}) == "decided"
    changes = Changes({"update.beta": ("0.01", "0.05")}, ["other problems"])
    assert str(changes) == "update.beta=0.05, other problems"
    assert with_params("decided", changes, {"seed": ("0", "5")}).splitlines() == [
        "decided",
        "",
        "| Params that differ from the commit | committed | this run |",
        "|---|---|---|",
        "| seed | 0 | 5 |",
        "",
        "| Params that differ from the run before | before | this run |",
        "|---|---|---|",
        "| update.beta | 0.01 | 0.05 |",
        "",
        "From the run before differ: other problems",
    ]
