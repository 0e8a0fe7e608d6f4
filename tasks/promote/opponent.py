"""The two sides of a promotion, measured: the run's policy and its opponent, the champion or else the first policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.artifacts import digest_path, read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.environments.lookup import environment_in
from tasks.environments.measures import gate_value, sample_level
from tasks.environments.protocol import Environment, Gate
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promote.champion import verify_champion
from tasks.promote.gate import FEWEST, SAMPLED, GateValues, confirm_promotion, kept_remarks
from tasks.promote.latest import first_policy
from tasks.promote.unseen import unseen_problems
from tasks.records.evaluation import Attempt, ProblemOutcome
from tasks.records.problems import Problem
from tasks.records.promotion import Champion, Promotion
from tasks.seeds import derive_seed


class Results(NamedTuple):
    """Results on each problem [M]: of the greedy completion, and what the gate compares if that is another measure."""

    right: list[bool]
    values: list[float | None]

    @property
    def compared(self) -> list[float]:
        """What the gate compares."""
        values = [value for value in self.values if value is not None]
        return values if len(values) == len(self.right) else [*map(float, self.right)]

    def at(self, places: Sequence[int]) -> "Results":
        """The results on the problems in these places."""
        return Results([self.right[place] for place in places], [self.values[place] for place in places])


def compared_by(environment: Environment, params: Params) -> Gate | None:
    """The gate of another measure than greedy pass@1: the environment's own, or SAMPLED; None without one."""
    return environment.gate or (SAMPLED if params.promotion.measure == "sampled" else None)


def results_of(outcomes: Sequence[ProblemOutcome], gate: Gate | None) -> Results:
    """The results that an evaluation wrote."""
    shares = (outcome.correct / outcome.samples if gate is SAMPLED else outcome.gate_value for outcome in outcomes)
    return Results([outcome.greedy for outcome in outcomes], list(shares))


def read_outcomes(layout: Layout, name: str) -> list[ProblemOutcome]:
    """Outcomes in the order of the test problems. Raises GraftError if they belong to other problems."""
    path = layout.evaluation(name) / "outcomes.jsonl"
    outcomes = read_jsonl(path, ProblemOutcome)
    problems = read_jsonl(layout.problems("test"), Problem)
    if [o.problem_id for o in outcomes] != [p.problem_id for p in problems]:
        raise GraftError(f"{path}: measured on other test problems; run again: graft stage evaluate@{name}")
    return outcomes


def opponent_results(layout: Layout, params: Params, champion: Champion | None) -> Results:
    """Results of the champion on the current test problems, or else of the first policy: the run's, or that with which
    the scheduled runs began."""
    gate = compared_by(environment_in(layout.root, params), params)
    if champion is None and first_policy(layout) == layout.policy(0):
        return results_of(read_outcomes(layout, "before"), gate)
    if champion and champion.test_sha256 == digest_path(layout.problems("test")):
        known = results_of(read_jsonl(layout.champion / "outcomes.jsonl", ProblemOutcome), gate)
        if gate is None or None not in known.values:
            return known
    problems = read_jsonl(layout.problems("test"), Problem)
    return measure(layout, params, opponent_policy(layout, champion), problems)


def opponent_policy(layout: Layout, champion: Champion | None) -> Path:
    """The folder of the champion, or of the first policy. Raises GraftError if the champion is damaged."""
    if champion is None:
        return first_policy(layout)
    verify_champion(layout.champion, champion.version)
    return layout.champion / "policy"


def measure(layout: Layout, params: Params, folder: Path, problems: Sequence[Problem]) -> Results:
    """Results of the policy in `folder` on problems, with samples only where the gate compares them."""
    from tasks.model.rollouts.attempts import evaluate_policy  # imports torch; without a call results are known

    environment = environment_in(layout.root, params)
    gate = compared_by(environment, params)
    sampled = {} if gate is None else params.evaluation.model_dump(include={"samples", "temperature"})
    rollouts = evaluate_policy(layout, params, folder, problems, "promote", **sampled)
    pairs = list(zip(rollouts.problems, rollouts.attempts, strict=True))
    values = [share_right(b) if gate is SAMPLED else gate_value(environment, a, b) for a, b in pairs]
    return Results([attempts[0].right for _, attempts in pairs], values)


def share_right(attempts: Sequence[Attempt]) -> float:
    """The share of a problem's samples that are right."""
    return sum(each.samples for each in attempts if each.right) / sum(each.samples for each in attempts)


def confirm(layout: Layout, params: Params, decision: Promotion, champion: Champion | None) -> Promotion:
    """The decision on a policy that has passed the gate, after both sides were measured on problems that no gate has
    seen. With too few of them it stays, and says so; with `problems.confirm` 0 it stays."""
    if not params.problems.confirm:
        return decision
    unseen = unseen_problems(layout, params, decision.version, decision.champion_version)
    if len(unseen.problems) < FEWEST:
        reason = f"{decision.reason}; not confirmed: {unseen.why}; {FEWEST} are needed"
        return decision.model_copy(update={"reason": reason})
    folders = (layout.run_policy, opponent_policy(layout, champion))
    ours, theirs = (measure(layout, params, folder, unseen.problems) for folder in folders)
    gate = compared_by(environment_in(layout.root, params), params)
    seed = derive_seed(params.seed, "promote", "confirm")
    own = None if gate is None else GateValues(gate, _known(ours.values), _known(theirs.values), ())
    return confirm_promotion(decision, ours.right, theirs.right, seed, unseen.fresh, unseen.uses, own)


def gate_values(layout: Layout, gate: Gate | None, ours: Results, theirs: Results) -> GateValues | None:
    """What a gate of another measure compares; None without one."""
    if gate is None:
        return None
    before, after = (
        {name: sample_level(numbers, name) for name in gate.kept}
        for numbers in (read_metrics(layout, f"evaluate@{when}") for when in ("before", "after"))
    )
    return GateValues(gate, _known(ours.values), _known(theirs.values), kept_remarks(gate, before, after))


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
