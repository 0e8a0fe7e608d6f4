"""What the collected trajectories look like in numbers."""

from collections.abc import Sequence

from tasks.records import Trajectory


def metrics_of(trajectories: Sequence[Trajectory], group_size: int) -> dict[str, float]:
    """Counts of each split; of the train groups: how many are full, shares of the tree and of distinct workflows.

    A revision counts with the tree.
    """
    train = [trajectory for trajectory in trajectories if trajectory.split == "train"]
    proposers = [proposer for trajectory in train for proposer in trajectory.proposers]
    distinct = sum(len(set(trajectory.workflow_ids)) for trajectory in train)
    return {
        "train": len(train),
        "validation": len(trajectories) - len(train),
        "completions": len(proposers),
        "full_groups": sum(len(trajectory.workflow_ids) == group_size for trajectory in train),
        "tree_share": sum(proposer != "sample" for proposer in proposers) / max(len(proposers), 1),
        "distinct_share": distinct / max(len(proposers), 1),
    }
