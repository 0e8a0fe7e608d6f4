"""A round's rewarded trajectories and the policy that wrote them, for the stage `select`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.layout import Layout
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import write_round


@pytest.fixture
def layout(
    tmp_path: Path, save_tiny: Callable[..., None], make_trajectory: Callable[..., RewardedTrajectory]
) -> Layout:
    layout = Layout(tmp_path)
    save_tiny(layout.policy(0))
    train = [make_trajectory(f"t{i}", [1.0, 0.0, None, 0.5 * i]) for i in range(4)]
    validation = [make_trajectory(f"v{i}", [0.0, 1.0, 1.0], split="validation") for i in range(3)]
    write_round(layout, [*train, make_trajectory("solved", [1.0, 1.0]), *validation])
    return layout
