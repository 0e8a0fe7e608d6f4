"""What differs from the run before, below the summary of a run."""

from flows.history.run_history import Changes
from flows.reports.html.markdown import with_changes


def test_what_differs_is_a_table_of_params_and_a_line_for_the_rest() -> None:
    assert with_changes("decided", None) == "decided"
    changes = Changes({"grpo.beta": ("0.01", "0.05")}, ["other problems"])
    assert str(changes) == "grpo.beta=0.05, other problems"
    assert with_changes("decided", changes).splitlines() == [
        "decided",
        "",
        "| Params that differ from the run before | before | this run |",
        "|---|---|---|",
        "| grpo.beta | 0.01 | 0.05 |",
        "",
        "From the run before differ: other problems",
    ]
