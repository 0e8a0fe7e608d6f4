"""Params that differ, below the summary of a run."""

from flows.history.run_history import Changes
from flows.reports.publish import with_params


def test_a_table_of_the_params_that_differ_from_the_commit_and_one_of_those_from_the_run_before() -> None:
    assert with_params("decided", None, {}) == "decided"
    changes = Changes({"grpo.beta": ("0.01", "0.05")}, ["other problems"])
    assert str(changes) == "grpo.beta=0.05, other problems"
    assert with_params("decided", changes, {"seed": ("0", "5")}).splitlines() == [
        "decided",
        "",
        "| Params that differ from the commit | committed | this run |",
        "|---|---|---|",
        "| seed | 0 | 5 |",
        "",
        "| Params that differ from the run before | before | this run |",
        "|---|---|---|",
        "| grpo.beta | 0.01 | 0.05 |",
        "",
        "From the run before differ: other problems",
    ]
