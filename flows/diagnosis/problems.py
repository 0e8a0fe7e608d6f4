"""What a diagnosis shows of each problem: its completions, token by token, and what they are compared with."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from flows.diagnosis.record import Asked, Completion, Token
from tasks.grpo.recorded_logprobs import Key, Scores, key_of
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.objective.advantages import advantages_of, known, weighted
from tasks.objective.samples import counted_rewards, is_cut, samples_of
from tasks.params.fields import Baseline
from tasks.params.sections import Grpo
from tasks.records import Attempt, Result, RewardedTrajectory

Performance = list[list[Attempt]] | str
"""What a policy wrote for each problem [P], or why that cannot be told."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Compared:
    """The groups of P problems, G completions each, and what each completion is worth among its like."""

    trajectories: Sequence[RewardedTrajectory]  # [P]
    rewards: Sequence[Sequence[float | None]]  # [P][G], None = failed, or left out as `grpo.truncated` says
    advantages: Sequence[Sequence[float]]  # [P][G], before grpo.negative_weight
    samples: Sequence[Sample]  # [P · G], without advantages


def compared(policy: Policy, trajectories: Sequence[RewardedTrajectory], params: Grpo) -> Compared:
    """Advantages as the stage select gives them."""
    rewards = [counted_rewards(policy, t, params.truncated) for t in trajectories]
    samples = [s for t in trajectories for s in samples_of(policy, t, [0.0] * len(t.rewards))]
    return Compared(trajectories, rewards, advantages_of(params.advantages, rewards), samples)


def asked_of(
    policy: Policy,
    params: Grpo,
    groups: Compared,
    scores: tuple[Scores, Scores],
    performance: tuple[Performance, Performance],
) -> list[Asked]:
    """A page of each of P problems. `scores`: by the policy and by the reference; `performance`: before and after."""
    batch = known(reward for group in groups.rewards for reward in group)
    own = {key_of(sample): sample for sample in groups.samples}
    asked = []
    whole = zip(groups.trajectories, groups.rewards, groups.advantages, strict=True)
    for place, (trajectory, given, gains) in enumerate(whole):
        asked.append(
            Asked(
                problem_id=trajectory.problem_id,
                question=trajectory.problem.question,
                answer=trajectory.problem.answer,
                mean=_mean(known(given)),
                std=_deviation(known(given)),
                completions=_completions(policy, params, trajectory, own, (given, gains, batch), scores),
                greedy=_both(performance, place, greedy_of),
                right=_both(performance, place, right_of),
            )
        )
    return asked


def _completions(
    policy: Policy,
    params: Grpo,
    trajectory: RewardedTrajectory,
    own: Mapping[Key, Sample],
    worth: tuple[Sequence[float | None], Sequence[float], Sequence[float]],
    scores: tuple[Scores, Scores],
) -> list[Completion]:
    """Each different one of a group, the best first. `worth`: its rewards [G], advantages [G], all known rewards."""
    rewards, advantages, batch = worth
    baselines = baselines_of(params.advantages, rewards, advantages, batch)
    learned = weighted(advantages, params.negative_weight)
    found: dict[tuple[int, ...], Completion] = {}  # by their tokens
    for member in sorted(range(len(advantages)), key=lambda member: -advantages[member]):
        sample = own[trajectory.problem_id, member]
        if (same := found.get(sample.completion)) is not None:
            found[sample.completion] = replace(same, count=same.count + 1)
            continue
        found[sample.completion] = Completion(
            code=trajectory.workflow_codes[member],
            tokens=_tokens(policy, sample, scores),
            count=1,
            result=told(trajectory.results[member]),
            reward=trajectory.rewards[member],
            terms={name: values[member] for name, values in trajectory.reward_terms.items()},
            baseline=baselines[member],
            advantage=advantages[member],
            learned=learned[member],
            cut=is_cut(policy, sample.completion),
        )
    return list(found.values())


def greedy_of(attempts: Sequence[Attempt]) -> bool:
    """Whether the likeliest completion is right."""
    return any(attempt.greedy and attempt.right for attempt in attempts)


def right_of(attempts: Sequence[Attempt]) -> int:
    """How many of the samples are right."""
    return sum(attempt.samples for attempt in attempts if attempt.right)


def baselines_of(
    rule: Baseline, rewards: Sequence[float | None], advantages: Sequence[float], batch: Sequence[float]
) -> list[float | None]:
    """What each reward of a group [G] is compared with, None where it is not: the formulas of tasks/policy/advantages.

    r - A where the advantage is that difference itself; else the mean of the group's known rewards, or of the `batch`
    where there is a single one.
    """
    given = known(rewards)
    mean = _mean(given if len(given) != 1 else batch)
    differences = rule in ("none", "leave_one_out")
    return [None if r is None else r - a if differences else mean for r, a in zip(rewards, advantages, strict=True)]


def told(result: Result) -> str:
    """What a program gave, in a few words."""
    return f"{result.value!r}" if result.status == "ok" else f"{result.status}: {result.error}"


def _tokens(policy: Policy, sample: Sample, scores: tuple[Scores, Scores]) -> list[Token]:
    own, reference = (found[key_of(sample)].tolist() for found in scores)
    texts = policy.tokenizer.batch_decode([[token] for token in sample.completion])
    return [Token(*row) for row in zip(texts, own, reference, strict=True)]


def _both(
    performance: tuple[Performance, Performance], place: int, of: Callable[[Sequence[Attempt]], Value]
) -> tuple[Value | None, Value | None]:
    """Before and after; None where it is not known."""
    before, after = (None if isinstance(found, str) else of(found[place]) for found in performance)
    return before, after


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _deviation(values: Sequence[float]) -> float | None:
    """With ddof 1, as in the advantages; 0 for one value, None for none."""
    mean = _mean(values)
    if mean is None:
        return None
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))
