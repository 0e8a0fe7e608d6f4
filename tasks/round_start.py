"""The start of a round's learning: its models, and its groups with the advantages that the algorithm gives them.

Both `select`, which measures influence at these, and `update`, which learns from them, begin with it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tasks.layout import VALUE_HEAD, Layout
from tasks.model.distributed.sharding import shard_base
from tasks.model.policy import Policy, load_policy
from tasks.objective.groups import GroupsBySplit, groups_by_split
from tasks.objective.recorded_logprobs import Logprobs
from tasks.params.params import Params
from tasks.ppo.critic import criticise, score_splits
from tasks.ppo.value_head import read_head, write_head
from tasks.records.problems import Split
from tasks.trajectories import RewardedTrajectory


class Models(Protocol):
    """The models of a round. A call may discard the one that another call gave."""

    def policy(self) -> Policy:
        """The policy that the round starts from."""

    def reference(self) -> Policy:
        """The policy that the run started from, to which the KL pulls."""

    def value_head(self) -> Any:
        """The value head that the round starts from, for algorithm ppo; on the device of the policy."""


class StoredModels:
    """The models of a round in their folders; one of them is in memory at a time."""

    def __init__(self, layout: Layout, params: Params, round: int) -> None:
        self._layout, self._round = layout, round
        self._shard = shard_base if params.update.sharded else None
        self._loaded: tuple[Path, Policy] | None = None

    def policy(self) -> Policy:
        return self._load(self._layout.policy(self._round - 1))

    def reference(self) -> Policy:
        return self._load(self._layout.policy(0))

    def value_head(self) -> Any:
        """See Models. Raises GraftError where the file does not fit the policy."""
        return read_head(self._layout.value_head(self._round - 1), self.policy())

    def _load(self, folder: Path) -> Policy:
        if self._loaded is None:
            self._loaded = folder, load_policy(folder, shard=self._shard)
        elif self._loaded[0] != folder:
            self._loaded = folder, load_policy(folder, instead_of=self._loaded[1])
        return self._loaded[1]


class HeldModels(NamedTuple):
    """The models of rounds in memory. The policy and the head are trained in place: they start the next round, too."""

    trained: Policy
    first: Policy | None  # None where `update.beta` is 0
    head: Any = None  # with algorithm ppo

    def policy(self) -> Policy:
        return self.trained

    def reference(self) -> Policy:
        assert self.first is not None, "update.beta is 0: there is no reference"
        return self.first

    def value_head(self) -> Any:
        return self.head


@dataclass(frozen=True)
class RoundStart:
    """Groups with their advantages and, with algorithm ppo, the targets of their tokens."""

    groups: GroupsBySplit
    head: Any = None  # the value head, with algorithm ppo
    reference: Logprobs | None = None  # of all samples by the reference, where the advantages need it

    def write_head(self, folder: Path) -> None:
        """Write the head, if there is one, into a policy's folder."""
        if self.head is not None:
            write_head(folder / VALUE_HEAD, self.head)


def start_round(
    models: Models, rewarded: Iterable[RewardedTrajectory], splits: Sequence[Split], params: Params
) -> RoundStart:
    """The groups of these splits, each of which is a batch of its own, from their rewarded completions.

    Raises GraftError where algorithm ppo is to learn from a completion that is no independent sample.
    """
    by_ppo = params.algorithm == "ppo"
    # PPO pays the KL in the rewards of tokens: the reference has to score before there are advantages.
    scores_first = by_ppo and params.update.beta > 0
    policy = models.reference() if scores_first else models.policy()
    groups = groups_by_split(policy, rewarded, splits, params.update)
    if not by_ppo:
        return RoundStart(groups)
    reference = score_splits(policy, groups, params) if scores_first else None
    head = models.value_head()
    return RoundStart(criticise(models.policy(), head, groups, reference, params), head, reference)
