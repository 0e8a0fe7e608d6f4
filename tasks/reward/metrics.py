"""Metrics of a round's rewards; failed rewards are counted and excluded from every mean."""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import chain
from statistics import variance

from tasks.core.exact_sums import Column, ExactSum
from tasks.environments.protocol import Environment
from tasks.objective.advantages import has_signal, known_rewards
from tasks.reward.builtin_terms import correctness
from tasks.reward.histogram import RewardBin, reward_histogram
from tasks.reward.weighted_sum import Failures
from tasks.statistics.intervals import CHANCE
from tasks.statistics.pass_at_k import pass_at_k
from tasks.statistics.plateau import describe_plateau
from tasks.trajectories import RewardedTrajectory, Trajectory

CONSTANT = 1e-12
"""Largest deviation of a term that is constant up to rounding."""

KS = (1, 5, 10)
"""k of pass@k of a round's own samples, where it has that many of a problem."""

NOTHING_EARNED = (
    "see what the policy writes with graft diagnose: where it is no program or no answer, give it worked examples "
    "(policy.prompt), else a larger policy.base or easier problems, with environment.operations for instance"
)
"""Remedy where no completion is right."""


class RewardTotals:
    """Sum and mean of the rewards, mean and deviation of each term, and the number of groups with a signal.

    Groups are added one by one; values are kept in sums and in columns on disk. Use it in a `with` block.
    """

    def __init__(self, environment: Environment) -> None:
        self.failures = Failures()
        self._environment = environment
        self._rewards, self._spread = ExactSum(), ExactSum()
        self._counts: Counter[str] = Counter()
        self._terms: dict[str, Column] = {}
        self._columns = ExitStack()
        self._column = self._columns.enter_context(Column())  # of the rewards
        self._passes_at = {k: self._columns.enter_context(Column()) for k in KS}
        self._ends = (0.0, 0.0)

    def __enter__(self) -> "RewardTotals":
        return self

    def __exit__(self, *_: object) -> None:
        self._columns.close()

    def add(self, rewarded: RewardedTrajectory) -> None:
        self.failures.add(rewarded)
        finite = known_rewards(reward.reward for reward in rewarded.rewards)
        self._rewards.add(finite)
        self._column.add(finite)
        self._ends = min(self._ends[0], *finite, 0.0), max(self._ends[1], *finite, 0.0)
        self._counts["rewards"] += len(finite)
        self._counts["above_0"] += sum(reward > 0 for reward in finite)
        self._counts["train"] += 1
        problem, members = rewarded.trajectory.problem, rewarded.trajectory.members
        self._counts["solved"] += any(correctness(self._environment, problem, member) == 1 for member in members)
        self._counts["groups_with_signal"] += has_signal(finite)
        passes = self._passes(rewarded.trajectory)
        for k, column in self._passes_at.items():
            if len(passes) >= k:
                column.add([pass_at_k(len(passes), sum(passes), k)])
        if len(finite) > 1:
            self._counts["groups"] += 1
            self._spread.add([len(finite) * variance(finite)])
        for name in rewarded.rewards[0].terms if rewarded.rewards else ():
            if name not in self._terms:
                self._terms[name] = self._columns.enter_context(Column())
            self._terms[name].add(known_rewards(reward.terms[name] for reward in rewarded.rewards))

    def _passes(self, trajectory: Trajectory) -> list[bool]:
        """Whether each independent sample solves the problem, its siblings aside, as evaluation counts it."""
        samples = (member for member in trajectory.members if member.proposer == "sample")
        return [self._environment.is_right(trajectory.problem, member.result) for member in samples]

    def histogram(self, highest: float) -> list[RewardBin]:
        """Histogram of the rewards from 0 to `highest`, or further if they are."""
        least, most = self._ends
        return reward_histogram(chain.from_iterable(self._column.chunks()), least, max(most, highest))

    @property
    def metrics(self) -> dict[str, float]:
        """The stage's metrics.

        `epoch/samples` are the completions with a known reward, `epoch/reward_std` is the deviation of these
        rewards. `groups` have two or more members. `mean_reward_error` is the standard error of the mean reward over
        other completions of the same problems, √(Σ G s²) / Σ G with s the deviation in a group of G; it is approximate,
        as completions from the tree are not independent. `positive_share` is the share of the rewards above 0,
        `solved_share` that of the problems with a completion that solves problem and siblings. `pass_at_1` is the mean
        over problems of the share of independent samples that solve the problem, of the policy that the round began
        with, ± 1.96 standard errors; `pass_at_5` and `pass_at_10` are the unbiased estimates of the same samples, over
        the problems with at least k of them. Means of nothing are left out.
        """
        counts, rewards = self._counts, self._rewards.value
        numbers: dict[str, float | None] = {
            "epoch/accumulated_reward": rewards,
            "epoch/mean_reward": _share(rewards, counts["rewards"]),
            "epoch/reward_std": self._column.deviation,
            "epoch/samples": counts["rewards"],
            "positive_share": _share(counts["above_0"], counts["rewards"]),
            "mean_reward_error": math.sqrt(self._spread.value) / counts["rewards"] if counts["groups"] else None,
            "failed_share": self.failures.share(),
            "timeout_share": self.failures.share("timeout"),
            "solved_share": _share(counts["solved"], counts["train"]),
            "groups": counts["groups"],
            "groups_with_signal": counts["groups_with_signal"],
        }
        numbers |= {f"pass_at_{k}": column.mean for k, column in self._passes_at.items()}
        shares = self._passes_at[1]
        level, deviation = shares.mean, shares.deviation
        if level is not None and deviation is not None:
            margin = CHANCE * deviation / math.sqrt(shares.count)
            low, high = max(level - margin, 0.0), min(level + margin, 1.0)
            numbers |= {"pass_at_1_low": low, "pass_at_1_high": high}
        for name, column in self._terms.items():
            numbers[f"{name}/failed_share"] = (self.failures.rewards - column.count) / self.failures.rewards
            numbers[f"{name}/mean"] = column.mean
            numbers[f"{name}/std"] = column.deviation
        return {name: number for name, number in numbers.items() if number is not None}


def remarks(numbers: Mapping[str, float]) -> list[str]:
    """Warnings about terms and groups without a signal.

    Where every term is 0, or nothing is right, the prompt or the problems are at fault, not a weight.
    """
    terms = [key.removesuffix("/std") for key in numbers if key.endswith("/std")]
    constant = [name for name in terms if numbers[f"{name}/std"] < CONSTANT]
    varying = [name for name in terms if name not in constant]
    if constant and not varying and not any(numbers[f"{name}/mean"] for name in constant):
        return [f"{', '.join(f'rewards.{name}' for name in constant)}: 0 for every completion; {NOTHING_EARNED}"]
    lines = [_constant_term(name, numbers[f"{name}/mean"]) for name in constant]
    if varying and numbers.get("groups") and not numbers["groups_with_signal"]:
        lines.append(
            "no group has two different rewards: relative to its group none teaches anything; raise search.temperature "
            "or update.group_size, or give problems that are neither always solved nor never"
        )
    return lines


def _constant_term(name: str, mean: float) -> str:
    told = f"rewards.{name} is {mean:.3g} for every completion"
    if name == "correctness":
        return f"{told}; {'give harder problems' if mean else NOTHING_EARNED}"
    return f"{told}: it teaches nothing; set its weight to 0, or see why none {'differs' if mean else 'earns any'}"


def plateau_remarks(rounds: Mapping[int, Mapping[str, float]]) -> list[str]:
    """A remark if the mean reward has reached a plateau (tasks/statistics/plateau.py).

    `rounds` holds the metrics of each round, in order; a difference of two means is significant beyond CHANCE of its
    standard errors. None for groups of one.
    """
    if any("mean_reward_error" not in numbers for numbers in rounds.values()):
        return []

    def differ(round: int, other: int) -> bool:
        error = math.hypot(*(rounds[number]["mean_reward_error"] for number in (round, other)))
        return abs(levels[round] - levels[other]) > CHANCE * error

    levels = {number: numbers["epoch/mean_reward"] for number, numbers in rounds.items()}
    return describe_plateau("The mean reward", levels, differ, "give harder or easier problems, or stop earlier")


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None
