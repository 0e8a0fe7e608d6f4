"""Groups of a round are read of the splits that are asked for, and of the round's own policy alone."""

from pathlib import Path

import pytest

from tasks.artifacts import write_json
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.objective.groups import read_trajectories
from tasks.records.policy import Lineage
from tests.support.groups import changed, write_round
from tests.support.policies import MakeTrajectory


def test_what_another_policy_wrote_is_named(tmp_path: Path, make_trajectory: MakeTrajectory) -> None:
    layout, lines = Layout(tmp_path), [make_trajectory("p", [1.0, 0.5]), make_trajectory("q", [0.0, 0.5])]
    lineage = Lineage(version="tiny", parent=None, base="scratch", round=0, holds=["weights", "adapter"])
    write_json(layout.policy(0) / "lineage.json", lineage)
    held_out, foreign = changed(lines[0], split="validation"), changed(lines[1], policy_version="other")
    write_round(layout, [lines[0], foreign, held_out])
    assert list(read_trajectories(layout, 1, ["validation"])) == [held_out]
    with pytest.raises(GraftError, match=r"jsonl:2: policy_version: 'other' .* search@1 collect@1 reward@1"):
        list(read_trajectories(layout, 1, ["train"]))
