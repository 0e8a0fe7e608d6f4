"""The problems of a diagnosis: completions token by token, with rewards, baselines and advantages."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

from flows.diagnosis.record import DiagnosedCompletion, ProblemDiagnosis, Token
from tasks.core.terminal import answer_text
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.text import is_truncated
from tasks.objective.advantages import ADVANTAGES, known_rewards
from tasks.objective.groups import SampleGroup
from tasks.objective.recorded_logprobs import Logprobs, sample_key
from tasks.params.fields import Baseline
from tasks.params.sections import Update
from tasks.programs.operators.builtin import without_context
from tasks.records.programs import Result
from tasks.trajectories import RewardedTrajectory
from tasks.update.diagnostics.health import Score


def problem_diagnoses(
    policy: Policy,
    params: Update,
    rewarded: Sequence[RewardedTrajectory],
    groups: Sequence[SampleGroup],
    logprobs: tuple[Logprobs, Logprobs],
    scores: tuple[Score | None, Score | None],
) -> list[ProblemDiagnosis]:
    """A page of each of P problems. `logprobs`: by policy and reference; `scores`: before and after the step."""
    before, after = scores
    batch = known_rewards(reward for group in groups for reward in group.baseline_rewards)
    return [
        ProblemDiagnosis(
            problem_id=problem.problem_id,
            question=without_context(problem.question),
            answer=answer_text(problem.answer),
            mean=_mean(known_rewards(group.baseline_rewards)),
            std=_deviation(known_rewards(group.baseline_rewards)),
            completions=_completions(policy, params.advantages, rewarded[place], group, batch, logprobs),
            greedy=(before.greedy[place] if before else None, after.greedy[place] if after else None),
            right=(before.right[place] if before else None, after.right[place] if after else None),
        )
        for place, group in enumerate(groups)
        for problem in [rewarded[place].trajectory.problem]
    ]


def _completions(
    policy: Policy,
    rule: Baseline,
    rewarded: RewardedTrajectory,
    group: SampleGroup,
    batch: Sequence[float],
    logprobs: tuple[Logprobs, Logprobs],
) -> list[DiagnosedCompletion]:
    """Each different one of a group, the best first. `batch`: all known rewards of all groups."""
    baselines = baselines_of(rule, group.baseline_rewards, group.advantages, batch)
    by_tokens: dict[tuple[int, ...], DiagnosedCompletion] = {}  # by their tokens
    for place in sorted(range(len(group.samples)), key=lambda place: -group.advantages[place]):
        sample, member, reward = group.samples[place], rewarded.trajectory.members[place], rewarded.rewards[place]
        if (same := by_tokens.get(sample.completion)) is not None:
            by_tokens[sample.completion] = replace(same, count=same.count + 1)
            continue
        by_tokens[sample.completion] = DiagnosedCompletion(
            code=member.code,
            tokens=_tokens(policy, sample, logprobs),
            count=1,
            result=result_text(member.result),
            reward=reward.reward,
            terms=reward.terms,
            baseline=baselines[place],
            advantage=group.advantages[place],
            learned=sample.advantage,
            cut=is_truncated(policy, sample.completion),
        )
    return list(by_tokens.values())


def baselines_of(
    rule: Baseline, rewards: Sequence[float | None], advantages: Sequence[float], batch: Sequence[float]
) -> list[float | None]:
    """The baseline of each reward of a group [G]; None for a failed one, and where a user's function gave advantages.

    r - A where the advantage is that difference itself; else the mean of the group's known rewards, or of the `batch`
    where there is a single one or the rule is global.
    """
    if rule not in ADVANTAGES:
        return [None] * len(rewards)
    known = known_rewards(rewards)
    mean = _mean(batch if len(known) == 1 or rule == "global" else known)
    differences = rule in ("none", "leave_one_out")
    return [None if r is None else r - a if differences else mean for r, a in zip(rewards, advantages, strict=True)]


def result_text(result: Result) -> str:
    """What a program gave, in a few words."""
    return f"{result.value!r}" if result.status == "ok" else f"{result.status}: {result.error}"


def _tokens(policy: Policy, sample: Sample, logprobs: tuple[Logprobs, Logprobs]) -> list[Token]:
    columns = [by_sample[sample_key(sample)].tolist() for by_sample in logprobs]
    texts = policy.tokenizer.batch_decode([[token] for token in sample.completion])
    return [Token(*row) for row in zip(texts, *columns, strict=True)]


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _deviation(values: Sequence[float]) -> float | None:
    """The standard deviation with ddof 1, as in the advantages; 0 of one value, None of none."""
    return stdev(values) if len(values) > 1 else 0.0 if values else None
