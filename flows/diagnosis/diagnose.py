"""Diagnosis of one GRPO step, for `graft diagnose`. The run is not changed.

sample a group for each problem of one step   as the next round's search would begin
run, reward, compare                          as search, collect and reward do
score the policy on the same problems         as evaluate does
learn (tasks/round.py)                        as select and update do, but for the update: one step of it, the
                                              first, in memory and taken apart
score it again, with the same seeds
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from flows.diagnosis.problems import problem_diagnoses
from flows.diagnosis.record import Diagnosis
from tasks.artifacts import read_json, read_jsonl
from tasks.core.metrics_files import read_table
from tasks.core.out_of_memory import explain_out_of_memory
from tasks.environments.lookup import environment_in
from tasks.environments.protocol import Environment
from tasks.environments.runner import Runner, make_runner
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.rollouts.attempts import attempt_problems
from tasks.model.rollouts.operator_model import log_usage, operator_model
from tasks.objective.groups import SampleGroup, samples_in
from tasks.objective.recorded_logprobs import Logprobs, score_samples
from tasks.objective.token_weights import TokenWeights
from tasks.params.params import Params
from tasks.params.sections import Rewards
from tasks.programs.answer_check import failure_reason
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.records.selection import Selected
from tasks.reward.compute import RewardedShard
from tasks.rollout import Setting, roll_out, roll_out_split, without_tree
from tasks.round import learn
from tasks.round_start import Models, StoredModels, start_round
from tasks.search.draw import draw_problems, draw_train_problems
from tasks.search.policy_search import SplitProblem
from tasks.seeds import derive_seed
from tasks.sources.user_code import find_modules_in
from tasks.trajectories import Member, Reward, RewardedTrajectory
from tasks.update.compute import update_scorer
from tasks.update.diagnostics.health import Score, StepMeasurements, verdicts
from tasks.update.diagnostics.one_step import OneStep, logprob_gain, one_step
from tasks.update.step_plan import selected_groups

ANSWERED = ("ok", "timeout", "failed")
"""Results of completions that are not invalid; of a failed one that is unknown."""


def diagnose(layout: Layout, params: Params, count: int | None = None, round: int | None = None) -> Diagnosis:
    """One step of the policy of `round`, by default the last there is, on `count` train problems drawn by the seed.

    `count` is by default that of an update's step, `update.prompts_per_step`. A function of the project's files, the
    params and the arguments. Raises GraftError where there is no such policy, or where the algorithm is not grpo.
    """
    if params.algorithm != "grpo":
        raise GraftError(f"algorithm is {params.algorithm}, but graft diagnose takes a step of GRPO; set it to grpo")
    round = _round(layout, round)
    find_modules_in(layout.root, params.influence.selection, params.update.loss, params.update.advantages)
    environment = environment_in(layout.root, params)
    asked = _params_of_a_step(params)
    models = StoredModels(layout, asked, round + 1)
    policy = models.policy()
    version = policy.version
    served = operator_model(policy, params.operators, layout)
    with make_runner(environment, params.sandbox, served) as runner:
        setting = Setting(layout.root, asked, environment, runner, failed_limit=1.0)
        drawn = _drawn(layout, params.seed, count or params.update.prompts_per_step)
        shard = roll_out_split(setting, policy, drawn, round + 1)
        problems = [trajectory.problem for trajectory, _ in shard.rewarded]
        before = evaluate(policy, environment, problems, runner, params)

        def sample(first: int, last: int) -> list[RewardedTrajectory]:
            listed = read_jsonl(layout.problems("validation"), Problem)
            validation = draw_problems(listed, asked.influence.n, params.seed, "validation", round + 1)
            return roll_out(setting, models.policy(), validation[first:last], round + 1)

        learnt = learn(asked, models, shard.rewarded, sample, round + 1, partial(_take_step, layout))
    log_usage(served, layout, "diagnose, before the step")
    taken = learnt.update
    served = operator_model(taken.policy, params.operators, layout)
    with make_runner(environment, params.sandbox, served) as runner:
        after = evaluate(taken.policy, environment, problems, runner, params)
    log_usage(served, layout, "diagnose, after the step")
    scores = (None if isinstance(before, str) else before, None if isinstance(after, str) else after)
    signs = _signs(layout, params, round, shard, taken, *scores)
    return Diagnosis(
        round=round,
        version=version,
        reference=read_json(layout.policy(0) / "lineage.json", Lineage).version,
        samples=params.evaluation.samples,
        problems=problem_diagnoses(taken.policy, params.update, shard.rewarded, taken.groups, taken.logprobs, scores),
        step=taken.step,
        before=signs.before,
        after=signs.after,
        lost=next((score for score in (before, after) if isinstance(score, str)), ""),
        verdicts=verdicts(signs),
    )


def _params_of_a_step(params: Params) -> Params:
    """The params of a round that has a step's problems, one process, and independent samples alone."""
    # An audit of so few problems would say nothing: it is left out, and with it nothing is dropped.
    selection = "none" if params.influence.selection == "audit" else params.influence.selection
    influence = params.influence.model_copy(update={"selection": selection})
    update = params.update.model_copy(update={"processes": 1, "sharded": False})
    params = params.model_copy(update={"influence": influence, "update": update})
    return without_tree(params, params.update.group_size)


def evaluate(
    policy: Policy, environment: Environment, problems: Sequence[Problem], runner: Runner, params: Params
) -> Score | str:
    """How the policy does on the problems, as the stage evaluate measures it; why, where it cannot be measured."""
    evaluation, seed = params.evaluation, derive_seed(params.seed, "diagnose")
    longest = params.policy.max_new_tokens
    try:
        attempts = attempt_problems(
            policy, environment, problems, runner, longest, evaluation.samples, evaluation.temperature, seed
        )
    except GraftError as error:
        return str(error)
    return Score(
        greedy=[any(attempt.greedy and attempt.right for attempt in tried) for tried in attempts],
        right=[sum(attempt.samples for attempt in tried if attempt.right) for tried in attempts],
        samples=evaluation.samples,
    )


def _round(layout: Layout, round: int | None) -> int:
    folders = layout.root.glob("run/rounds/*/policy/lineage.json")
    there = sorted(int(path.parts[-3]) for path in folders if path.parts[-3].isdigit())
    if 0 not in there or not layout.problems("train").exists():
        raise GraftError("no policy to look at yet; run graft stage problems coldstart bootstrap, or graft retrain")
    if round is not None and round not in there:
        raise GraftError(f"--round {round}: no policy of that round; there are those of {', '.join(map(str, there))}")
    return there[-1] if round is None else round


def _drawn(layout: Layout, seed: int, count: int) -> list[SplitProblem]:
    """Train problems at random, the same for every round."""
    problems = read_jsonl(layout.problems("train"), Problem)
    lots = sorted(problems, key=lambda problem: derive_seed(seed, "diagnose", problem.problem_id))
    return [("train", problem) for problem in lots[:count]]


class _Stepped(NamedTuple):
    """The policy after the step, what it learned from, the step, and log-probabilities by policy and reference before
    it."""

    policy: Policy
    groups: list[SampleGroup]
    step: OneStep
    logprobs: tuple[Logprobs, Logprobs]
    gain: float | None  # of the completions that are learned from; None: the step has left nothing that is finite


def _take_step(
    layout: Layout,
    models: Models,
    rewarded: Sequence[RewardedTrajectory],
    lines: Sequence[Selected],
    params: Params,
    round: int,
) -> _Stepped:
    """The first step of the round's update, on the selected training samples.

    As in the update, one model is in memory: the reference replaces the policy while it scores.
    """
    averaging = TokenWeights(params.update.loss, params.policy.max_new_tokens)
    train = draw_train_problems(read_jsonl(layout.problems("train"), Problem), params.search, params.seed, round)
    steps = params.update.epochs * math.ceil(len(train) / params.update.prompts_per_step)
    with explain_out_of_memory(params.update.micro_batch_tokens):
        groups = start_round(models, rewarded, ["train"], params).groups["train"]
        samples = samples_in(groups)
        lines = [line for line in lines if line.split == "train"]
        selected = selected_groups(groups, lines, averaging)
        before = score_samples(update_scorer(models.policy(), samples, params), samples)
        reference = score_samples(update_scorer(models.reference(), samples, params), samples)
        policy = models.policy()
        scorer = update_scorer(policy, samples, params)
        pulled_to = reference if params.update.beta > 0 else None
        step = one_step(scorer, selected, params.update, pulled_to, steps)
        kept = [line.selected for line in lines]
        gain = None if step.diverged else logprob_gain(groups, kept, before, score_samples(scorer, samples))
    return _Stepped(replace(policy, version=_moved_version(policy)), groups, step, (before, reference), gain)


def _moved_version(policy: Policy) -> str:
    """Version of the policy after the step: replies that are remembered of the one before are not its own."""
    trained = hashlib.sha256()
    for _, weight in sorted((n, w) for n, w in policy.model.named_parameters() if w.requires_grad):
        trained.update(weight.detach().float().cpu().numpy().tobytes())
    return f"{policy.version}+{trained.hexdigest()[:16]}"


def _signs(
    layout: Layout,
    params: Params,
    round: int,
    shard: RewardedShard,
    taken: _Stepped,
    before: Score | None,
    after: Score | None,
) -> StepMeasurements:
    """What was measured of the step, which the verdicts rest on."""
    members = [
        (member, reward)
        for trajectory, rewards in shard.rewarded
        for member, reward in zip(trajectory.members, rewards, strict=True)
    ]
    step, groups = taken.step, taken.groups
    # From the reference itself the KL has no gradient yet: its share is that after the step.
    parts = step.before if round or step.after is None else step.after
    return StepMeasurements(
        rewards=[group.baseline_rewards for group in groups],
        advantages=[group.advantages for group in groups],
        distinct=[len({tuple(member.tokens) for member in trajectory.members}) for trajectory, _ in shard.rewarded],
        invalid=fmean(member.result.status not in ANSWERED for member, _ in members),
        errors=[
            failure_reason(member.results) or shard.term_error or "a term of its reward failed"
            for member, reward in members
            if reward.status != "ok"
        ],
        faulty=_faulty_terms(params.rewards, members),
        served=params.operators.backend != "none",
        norm=step.row["grad_norm"] if step.row else 0.0,
        max_norm=params.update.max_grad_norm,
        earlier_norms=[norm for number in range(1, round + 1) for norm in gradient_norms_in(layout.steps(number))],
        beta=params.update.beta,
        at_reference=round == 0,
        policy_norm=parts.policy,
        kl_norm=parts.kl,
        before=before,
        after=after,
        stepped=step.row is not None,
        diverged=step.diverged,
        gain=taken.gain,
    )


def _faulty_terms(params: Rewards, members: Sequence[tuple[Member, Reward]]) -> list[str]:
    """The terms that failed although the program's result is known; the user's with their function."""
    functions = {term.name: f"{term.name} ({term.term})" for term in params.own}
    known = [reward.terms for member, reward in members if failure_reason(member.results) is None]
    failed = dict.fromkeys(name for terms in known for name, value in terms.items() if value is None)
    return [functions.get(name, name) for name in failed]


def gradient_norms_in(table: Path) -> list[float]:
    """The gradient's norm at each step of a round's update; [] where the table is not there.

    Raises GraftError where it is not a table of steps.
    """
    if not table.exists():
        return []
    try:
        return [row["grad_norm"] for row in read_table(table)]
    except (KeyError, OSError, ValueError):
        remedy = "run the update stage of that round again"
        raise GraftError(f"{table}: no table of an update's steps with a column grad_norm; {remedy}") from None
