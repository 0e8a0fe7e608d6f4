"""Metrics of the stage `collect`."""

from collections import Counter

from tasks.trajectories import Trajectory

COUNTED = 1000
"""Workflows, the first ones, of which any may be the most frequent: a bound of the memory."""


class TrajectoryCounts:
    """Counts of groups, full ones and completions, and the shares of the tree, of distinct workflows, and of the most
    frequent workflow of all problems together."""

    def __init__(self, group_size: int) -> None:
        self.trajectories = 0
        self._group_size = group_size
        self._counts: Counter[str] = Counter()
        self._full = self._completions = self._tree = self._distinct = 0

    def add(self, trajectory: Trajectory) -> None:
        names = [member.workflow_id for member in trajectory.members]
        self.trajectories += 1
        self._full += len(names) == self._group_size
        self._completions += len(names)
        self._tree += sum(member.proposer != "sample" for member in trajectory.members)
        self._distinct += len(set(names))
        for name in names:
            if name in self._counts or len(self._counts) < COUNTED:
                self._counts[name] += 1

    @property
    def metrics(self) -> dict[str, float]:
        return {
            "train": self.trajectories,
            "completions": self._completions,
            "full_groups": self._full,
            "tree_share": self._tree / max(self._completions, 1),
            "distinct_share": self._distinct / max(self._completions, 1),
            "commonest_share": max(self._counts.values(), default=0) / max(self._completions, 1),
        }
