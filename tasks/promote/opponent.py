"""The two sides of a promotion: the run's policy and its opponent, the champion or else the run's first policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.artifacts import digest_path, read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.environments.lookup import environment_in
from tasks.environments.measures import gate_value, sample_level
from tasks.environments.protocol import Gate
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promote.champion import verify_champion
from tasks.promote.gate import GateValues, kept_remarks
from tasks.promote.latest import first_policy
from tasks.records.evaluation import ProblemOutcome
from tasks.records.problems import Problem
from tasks.records.promotion import Champion


class Results(NamedTuple):
    """Results on each test problem [M]: of the greedy completion, and the gate's measure if there is a gate."""

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


def results_of(outcomes: Sequence[ProblemOutcome]) -> Results:
    """The results that an evaluation wrote."""
    return Results([outcome.greedy for outcome in outcomes], [outcome.gate_value for outcome in outcomes])


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
    environment, first = environment_in(layout.root, params), first_policy(layout)
    if champion is None and first == layout.policy(0):
        return results_of(read_outcomes(layout, "before"))
    if champion and champion.test_sha256 == digest_path(layout.problems("test")):
        known = results_of(read_jsonl(layout.champion / "outcomes.jsonl", ProblemOutcome))
        if environment.gate is None or None not in known.values:
            return known
    if champion:
        verify_champion(layout.champion, champion.version)
    folder = layout.champion / "policy" if champion else first
    return measured(layout, params, folder, read_jsonl(layout.problems("test"), Problem))


def measured(layout: Layout, params: Params, folder: Path, problems: Sequence[Problem]) -> Results:
    """Results of the policy in `folder` on problems, with samples only where the environment's gate compares them."""
    from tasks.model.rollouts.attempts import evaluate_policy  # imports torch; without a call results are known

    environment = environment_in(layout.root, params)
    sampled = {} if environment.gate is None else params.evaluation.model_dump(include={"samples", "temperature"})
    rollouts = evaluate_policy(layout, params, folder, problems, "promote", **sampled)
    pairs = list(zip(rollouts.problems, rollouts.attempts, strict=True))
    values = [gate_value(environment, problem, attempts) for problem, attempts in pairs]
    return Results([attempts[0].right for _, attempts in pairs], values)


def gate_values(layout: Layout, gate: Gate | None, ours: Results, theirs: Results) -> GateValues | None:
    """What the environment's gate compares; None without one."""
    if gate is None:
        return None
    before, after = (
        {name: sample_level(numbers, name) for name in gate.kept}
        for numbers in (read_metrics(layout, f"evaluate@{when}") for when in ("before", "after"))
    )
    return GateValues(gate, _known(ours.values), _known(theirs.values), kept_remarks(gate, before, after))


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
