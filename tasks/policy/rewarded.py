"""A round's rewarded trajectories, as the stages that learn from them read them."""

from tasks.artifacts import read_json, read_jsonl, read_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.records import Lineage, RewardedTrajectory


def rewarded_of(layout: Layout, round: int) -> list[RewardedTrajectory]:
    """The trajectories of `rewarded.jsonl`, in order.

    Raises GraftError where one was not written by the policy that the round starts from: its log-probabilities would
    be compared with those of a stranger. A policy that was made again with the same weights has the same version.
    """
    path = layout.rewarded(round)
    trajectories = read_jsonl(path, RewardedTrajectory)
    version = read_json(layout.policy(round - 1) / "lineage.json", Lineage).version
    for place, trajectory in enumerate(trajectories):
        if trajectory.policy_version != version:
            lines = [number for number, line in enumerate(read_text(path).split("\n"), start=1) if line.strip()]
            raise GraftError(
                f"{path}:{lines[place]}: policy_version: {trajectory.policy_version!r} wrote this, but round {round} "
                f"starts from {version!r}; run again: graft stage search@{round} collect@{round} reward@{round}"
            )
    return trajectories
