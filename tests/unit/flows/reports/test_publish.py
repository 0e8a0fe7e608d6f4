"""Parameters on the page of a flow run."""

from pathlib import Path

from flows.reports.publish import parameters
from tasks.params.file import load_params

PARAMS = load_params(Path(__file__).parents[4] / "params.yaml")


def test_they_are_what_was_set_and_the_commit_with_a_note_of_other_changes() -> None:
    tags = {"git_commit": "58dd976f" + "0" * 32, "git_dirty": "false"}
    shown = parameters(PARAMS, {"seed": ("0", "5"), "grpo.beta": ("0.0", "0.1")}, "small", tags)
    last = PARAMS.rounds.last
    assert shown == {
        "preset": "small",
        "params": "seed=5 grpo.beta=0.1",
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
