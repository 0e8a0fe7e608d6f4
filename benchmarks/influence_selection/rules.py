"""The selection rules of `benchmarks.selection`, as functions that a round may select with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.influence_selection.gradalign import aligned_problems
from benchmarks.influence_selection.variants import MEASURED, Rule
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.advantages import advantages_of
from tasks.objective.groups import SampleGroup
from tasks.params.params import Params
from tasks.records import Selected
from tasks.seeds import derive_seed
from tasks.select.select_samples import Selection, select_samples

Keep = Callable[[Selected], bool]
"""True for a training sample that is learned from, if it has an advantage above 0."""

GRADALIGN_SHARE = 0.5
"""Share of the problems that GradAlign keeps: those with the highest cosine. Its authors' share is theirs to tune."""


def select_by(
    rule: Rule,
    trusted: Mapping[str, Sequence[float]],
    policy: Policy,
    train: Sequence[SampleGroup],
    validation: Sequence[SampleGroup],
    params: Params,
    round: int,
    value_head: Any = None,
) -> Selection:
    """The samples of `train` that a rule keeps, and those of `validation` where the params say so.

    `trusted`: problem → the trusted rewards of its members. Everything but the rule is as in a run.
    """
    selection = select_samples(policy, train, validation, params, round, value_head)
    lines = [line for line in selection.lines if line.split == "train"]
    mixed = [line for line in selection.lines if line.split == "validation"]
    if rule not in MEASURED and params.influence.train_on_validation:  # select_samples mixes where it measures
        held_out = select_samples(policy, validation, [], params, round).lines
        mixed = [line.model_copy(update={"split": "validation"}) for line in held_out]
    if rule == "oracle":
        keep = helpful(train, trusted)
    elif rule == "gradalign":
        keep = aligned(policy, train, validation, params)
    elif rule == "negative":
        keep = _of([line for line in lines if (line.influence or 0.0) < 0])
    elif rule in ("random", "bottom"):
        signals = [line for line in lines if line.advantage > 0]
        if rule == "random":
            signals.sort(key=lambda line: derive_seed("random", params.seed, round, line.problem_id, line.member))
        else:
            signals.sort(key=lambda line: line.influence or 0.0)
        keep = _of(signals[: max(sum(line.selected for line in lines), 1)])
    else:
        return Selection([*lines, *mixed], selection.metrics)
    kept = [line.model_copy(update={"selected": line.advantage > 0 and keep(line)}) for line in lines]
    return Selection([*kept, *mixed], selection.metrics)


def helpful(train: Sequence[SampleGroup], trusted: Mapping[str, Sequence[float]]) -> Keep:
    """Keep what has an advantage above 0 by the trusted rewards of its problem's members."""
    names = [group.problem_id for group in train]
    advantages = dict(zip(names, advantages_of("group", [trusted[name] for name in names]), strict=True))
    return lambda line: advantages[line.problem_id][line.member] > 0


def aligned(policy: Policy, train: Sequence[SampleGroup], validation: Sequence[SampleGroup], params: Params) -> Keep:
    """Keep the problems that GradAlign does."""
    samples, trusted = published(train), published(validation)
    tokens = params.update.micro_batch_tokens
    scorer = scorer_for(policy, [*samples, *trusted], params.search.temperature, tokens)
    problems = aligned_problems(scorer, samples, trusted, GRADALIGN_SHARE)
    return lambda line: line.problem_id in problems


def published(groups: Sequence[SampleGroup]) -> list[Sample]:
    """The samples with the advantages of both signs, before `update.negative_weight`."""
    return [replace(s, advantage=a) for group in groups for s, a in zip(group.samples, group.advantages, strict=True)]


def _of(lines: Sequence[Selected]) -> Keep:
    names = {(line.problem_id, line.member) for line in lines}
    return lambda line: (line.problem_id, line.member) in names
