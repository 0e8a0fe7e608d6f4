"""The select stage: rewarded trajectories → which samples the update may see."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from tasks.artifacts import write_json, write_jsonl
from tasks.errors import GraftError
from tasks.influence.certificate import certify, check_own_votes
from tasks.influence.conformal_control import CONTROLLED, from_fault_line, trusted_influences
from tasks.influence.gradient_algebra import length_of
from tasks.influence.loss_gradients import Validation, coefficients
from tasks.influence.metrics import selection_numbers
from tasks.influence.selection import select
from tasks.influence.tracin import NOT_MEASURED, Measure, Scored, influences, judges_of
from tasks.influence.validation_losses import only_best, weights_of
from tasks.layout import Layout
from tasks.model.distributed.collectives import rank
from tasks.model.distributed.torchrun import run_in_processes
from tasks.model.out_of_memory import memory_named
from tasks.model.policy import Policy, load_policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.advantages import advantages_of, lone, weighted
from tasks.objective.recorded_completions import fitting, fitting_file
from tasks.objective.samples import counted_rewards, samples_of
from tasks.objective.token_weights import Averaging
from tasks.params.params import Params
from tasks.params.sections import Grpo, Influence
from tasks.records import Proposer, RewardedTrajectory, Selected, Split
from tasks.seeds import derive_seed

MEBIBYTE = 2**20

UNMEASURED = ("none", "random")
"""Selections that ask no influence."""

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Select of this round's training samples, in `grpo.processes` processes where influence is measured."""
    assert round is not None
    if params.grpo.processes > 1 and params.influence.selection not in UNMEASURED:
        run_in_processes(compute, layout, params, round)
    else:
        compute(layout, params, round)


def compute(layout: Layout, params: Params, round: int) -> None:
    """Select by influence at the policy of the round before, if it counts; the first of several processes writes."""
    policy, own = load_policy(layout.policy(round - 1)), params.influence
    held_out = own.validation == "held_out" and own.selection not in UNMEASURED
    splits: list[Split] = ["train", "validation"] if held_out else ["train"]
    unfit = Counter[Split]()
    groups: dict[Split, _Groups] = {split: _Groups(policy, params.grpo) for split in splits}
    for trajectory in fitting(policy, layout, round, splits, params.grpo.on_invalid_completion, unfit):
        groups[trajectory.split].add(trajectory)
    train = groups["train"].weighed()
    mixed: list[Selected] = []
    if own.selection in UNMEASURED:
        scored, heard = [NOT_MEASURED] * len(train.samples), dict[str, float]()
        kept = _selected(own, train, [None] * len(train.samples), round)
    else:
        judges = _judges(layout, params, round, policy, groups)
        scored, kept, heard = _measured(policy, train, judges, params, round)
        if held_out and own.train_on_validation:
            mixed = _lines(judges, [NOT_MEASURED] * len(judges.samples), _with_signal(judges), "validation")
    if rank():
        return
    lines = _lines(train, scored, kept)
    numbers = selection_numbers(lines, [r for group in train.rewards for r in group], train.proposers)
    numbers |= {"unfit_samples": unfit.total(), "lone_groups": lone(train.rewards)}
    numbers["mixed"] = sum(line.selected for line in mixed)
    if not numbers["selected"] + numbers["mixed"]:
        logger.warning("nothing is selected: the update of round %d will change nothing", round)
    write_jsonl(layout.selection(round), [*lines, *mixed])
    write_json(layout.metrics("select", round), numbers | heard)


class _Groups:
    """What trajectories are worth, group by group, and as samples in one row; no more of them is kept."""

    def __init__(self, policy: Policy, grpo: Grpo) -> None:
        self._policy, self._grpo = policy, grpo
        self._bare: list[list[Sample]] = []  # without advantages, which may depend on all groups
        self.rewards: list[list[float | None]] = []
        self.workflow_ids: list[str] = []
        self.proposers: list[Proposer] = []

    def add(self, trajectory: RewardedTrajectory) -> None:
        """Take in one group."""
        self._bare.append(samples_of(self._policy, trajectory, [0.0] * len(trajectory.workflow_ids)))
        self.rewards.append(counted_rewards(self._policy, trajectory, self._grpo.truncated))
        self.workflow_ids += trajectory.workflow_ids
        self.proposers += trajectory.proposers

    def weighed(self) -> "_Groups":
        """When all are there: influence is that of the step which is really taken, so samples have the advantages that
        the update will see."""
        grpo = self._grpo
        if lone(self.rewards):
            logger.warning(
                "groups with a single known reward, which is compared with the whole batch: %d", lone(self.rewards)
            )
        self.advantages = advantages_of(grpo.advantages, self.rewards)
        self.learned = [weighted(group, grpo.negative_weight) for group in self.advantages]
        self.shares = [abs(advantage) for group in self.advantages for advantage in group]
        bare = [sample for group in self._bare for sample in group]
        learned = [advantage for group in self.learned for advantage in group]
        self.samples = [replace(sample, advantage=a) for sample, a in zip(bare, learned, strict=True)]
        self._bare = []
        return self


def _judges(layout: Layout, params: Params, round: int, policy: Policy, groups: Mapping[Split, _Groups]) -> _Groups:
    """What influence is measured against."""
    own, judges = params.influence, groups["train"]
    if own.validation == "held_out":
        judges = groups["validation"].weighed()
    elif own.trajectories is not None:
        judges = _Groups(policy, params.grpo)
        for trajectory in fitting_file(policy, layout.root / own.trajectories, params.grpo.on_invalid_completion):
            judges.add(trajectory)
        judges.weighed()
    if not judges.rewards:
        raise GraftError(
            f"{own.trajectories or layout.rewarded(round)}: no trajectories to measure influence with; "
            "set influence.validation to another of held_out, same_batch and trajectories"
        )
    return judges


def _validation(judges: _Groups, params: Params) -> Validation:
    """What they vote for."""
    own = params.influence
    weights = weights_of(own.loss, judges.rewards, judges.advantages, judges.learned)
    if own.top_k is not None:
        weights = only_best(weights, judges.rewards, own.top_k)
        logger.warning(
            "influence.top_k: %d samples, and only the best, tell little of where the policy should go: influence "
            "measured with them is mostly noise; with null all %d speak",
            own.top_k,
            len(judges.samples),
        )
    flat = [weight for group in weights for weight in group]
    samples = [replace(s, advantage=weight) for s, weight in zip(judges.samples, flat, strict=True)]
    loss = params.grpo.loss if own.loss == "policy_gradient" else "dapo"  # every token the same weight
    averaging = Averaging(loss, params.policy.max_new_tokens)
    return Validation(samples, averaging, same_batch=own.validation == "same_batch")


def _measured(
    policy: Policy, train: _Groups, judges: _Groups, params: Params, round: int
) -> tuple[list[Scored], list[float], dict[str, float]]:
    """Influence; what each sample weighs; and what validation, certificate and control say.

    Raises GraftError where the certificate fails.
    """
    own, validation = params.influence, _validation(judges, params)
    averaging = Averaging(params.grpo.loss, params.policy.max_new_tokens)
    tokens, samples, measure = params.grpo.micro_batch_tokens, train.samples, _measure(own, params.grpo)
    scorer = scorer_for(policy, [*samples, *validation.samples], params.search.temperature, tokens)
    with memory_named(tokens):
        held = judges_of(scorer, validation, measure.budget) if own.similarity == "local" else None
        found = influences(scorer, samples, averaging, validation, measure, train.shares, judges=held)
        numbers = {
            "validation_samples": len(validation.samples),
            "validation_with_signal": sum(s.advantage != 0 for s in validation.samples),
            "validation_gradient_norm": length_of(found.gradient),
            **_certified(scorer, samples, found.each, averaging, validation, round),
        }
        counted: Sequence[float | None] | None = [s.influence for s in found.each]
        if not numbers["validation_with_signal"]:
            logger.warning("no validation sample has a signal: every training sample that has one is kept")
            counted = None
        elif own.fdr_control and own.selection in CONTROLLED and not validation.same_batch:
            trusted = trusted_influences(
                scorer, judges.samples, averaging, validation, measure, judges.shares, samples, held
            )
            counted = from_fault_line(samples, found.each, judges.samples, trusted, measure)
            numbers["fault_share"] = _fault_share(samples, counted)
    numbers["all_kept"] = int(counted is None)
    kept = _with_signal(train) if counted is None else _selected(own, train, counted, round)
    return found.each, kept, numbers


def _with_signal(groups: _Groups) -> list[float]:
    """All weigh 1 that teach anything."""
    return [float(s.advantage != 0) for s in groups.samples]


def _fault_share(samples: Sequence[Sample], counted: Sequence[float] | None) -> float:
    """Of the samples with a signal, the share that control finds fault with."""
    if counted is None:
        return 0.0
    return fmean(x <= 0 for s, x in zip(samples, counted, strict=True) if s.advantage)


def _certified(
    scorer: Scorer,
    samples: Sequence[Sample],
    scored: Sequence[Scored],
    averaging: Averaging,
    validation: Validation,
    round: int,
) -> dict[str, float]:
    """What the certificate says. Raises GraftError where it, or influence in the same batch, is not as it must be."""
    products = [s.product or 0.0 for s in scored]
    certificate = certify(scorer, samples, products, averaging, validation, derive_seed("certificate", round))
    certificate.check()
    if validation.same_batch:
        votes = coefficients(validation.samples, validation.averaging)
        check_own_votes(products, coefficients(samples, averaging), votes)
    numbers: dict[str, float] = {"certificate_steps": certificate.steps}
    if certificate.steps:
        numbers |= {"certificate_slope": certificate.slope, "certificate_signs": certificate.sign_agreement}
    if certificate.loss is not None:
        numbers["validation_loss"] = certificate.loss
    return numbers


def _selected(own: Influence, groups: _Groups, influences: Sequence[float | None], round: int) -> list[float]:
    return select(
        own.selection,
        [s.advantage for s in groups.samples],
        influences,
        fraction=own.fraction,
        minimum=own.minimum_kept,
        lots=[derive_seed("random", round, s.problem_id, s.member) for s in groups.samples],
    )


def _measure(own: Influence, grpo: Grpo) -> Measure:
    return Measure(
        exclude_self=own.exclude_self,
        leave_group_out=own.leave_group_out,
        similarity=own.similarity,
        adam=grpo.prompts_per_step if own.precondition == "adam" else None,
        budget=own.memory_budget * MEBIBYTE,
    )


def _lines(groups: _Groups, scored: Sequence[Scored], kept: Sequence[float], split: Split = "train") -> list[Selected]:
    advantages = [advantage for group in groups.advantages for advantage in group]
    return [
        Selected(
            problem_id=sample.problem_id,
            member=sample.member,
            workflow_id=name,
            advantage=advantage,
            influence=score.influence,
            gradient_norm=score.gradient_norm,
            selected=weight > 0,
            weight=weight or 1.0,
            split=split,
        )
        for name, sample, advantage, score, weight in zip(
            groups.workflow_ids, groups.samples, advantages, scored, kept, strict=True
        )
    ]
