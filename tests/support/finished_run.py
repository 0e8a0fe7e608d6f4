"""The files of a finished run, as far as comparison and page read them: real records, numbers from a seed."""

import random
from pathlib import Path
from typing import Any

from tasks.artifacts import write_json, write_jsonl, write_text
from tasks.core.metrics_files import read_metrics
from tasks.evaluate.summary import BASE, problem_outcome, summarise
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records.evaluation import Attempt
from tasks.records.problems import Problem, Sibling
from tasks.records.programs import Result
from tasks.records.selection import AuditAnswer, RewardAudit
from tasks.reward.histogram import histogram_csv, reward_histogram
from tests.support.groups import make_group, with_rewards, write_rewarded
from tests.support.params_file import override
from tests.support.records import make_promotion
from tests.support.selections import selected_by_influence

PARAMS = Path(__file__).parents[2] / "params.yaml"
PROBLEMS = 24
SAMPLES = 20  # evaluation.samples as shipped


def write(root: Path, seed: int = 0, skill: float = 0.6, rounds: int = 2, assignments: tuple[str, ...] = ()) -> Layout:
    """A run in `root` that solves a problem with the probability `skill` after it, 0.3 before; `seed` is of its luck.

    The test problems are the same whatever the seed.
    """
    layout, luck = Layout(root), random.Random(seed)
    write_text(root / "params.yaml", PARAMS.read_text())
    override(root / "params.yaml", [f"rounds={rounds}", *assignments])
    params = load_params(root / "params.yaml")
    problems = [problem(i) for i in range(PROBLEMS)]
    write_jsonl(layout.problems("test"), problems)
    for name, chance in (("before", 0.3), ("after", skill)):
        written = [attempts(p, chance, luck) for p in problems]
        outcomes = [problem_outcome(p, own) for p, own in zip(problems, written, strict=True)]
        write_jsonl(layout.evaluation(name) / "outcomes.jsonl", outcomes)
        write_jsonl(layout.evaluation(name) / "attempts.jsonl", [a for own in written for a in own])
        write_json(layout.metrics("evaluate", name), summarise(outcomes, params.evaluation, params.seed))
    for number in range(1, rounds + 1):
        _write_round(layout, number, luck)
    gap = {"pass_at_1": skill, "champion_pass_at_1": 0.3, "difference": skill - 0.3, "low": 0.0, "high": 0.5}
    decision = make_promotion(promoted=False, reason="not promoted: a lead that may be chance", **gap)
    write_json(layout.promotion, decision)
    return layout


def problem(number: int) -> Problem:
    return Problem(
        problem_id=f"test-{number:04d}-sum",
        question=f"Ann has {number} pears and finds 2. How many?",
        answer=number + 2,
        source="generated",
        template="sum",
        seen=number % 4 != 0,
        operations=1,
        siblings=[Sibling(question=f"Ann has {number + 1} pears and finds 2. How many?", answer=number + 3)],
    )


def attempts(problem: Problem, chance: float, luck: random.Random) -> list[Attempt]:
    """A right and a wrong workflow, one of them greedy."""
    assert isinstance(problem.answer, int | float)
    greedy, samples = luck.random() < chance, sum(luck.random() < chance for _ in range(SAMPLES))
    return [
        Attempt(
            problem_id=problem.problem_id,
            code=f"def solve(problem):\n    n = numbers(problem)\n    return n[0] {sign} n[1]\n",
            greedy=greedy == right,
            samples=samples if right else SAMPLES - samples,
            right=right,
            siblings_passed=right,
            result=Result(status="ok", value=float(problem.answer) - (0 if right else 4)),
        )
        for sign, right in (("+", True), ("-", False))
    ]


def make_audit(answer: AuditAnswer, **fields: Any) -> RewardAudit:
    """The audit of a round; any field can be given."""
    numbers = {"wrong": 0.3, "error": 0.02, "contradicted": 0.33, "expected": 0.04, "problems": 64, "needed": 0}
    return RewardAudit(answer=answer, **{**numbers, **fields})


def _write_round(layout: Layout, number: int, luck: random.Random) -> None:
    terms = {"correctness": 0.2 * number, "runs": 0.9}
    named = {f"{name}/{part}": value for name, value in terms.items() for part in ("mean", "std")}
    own = {"epoch/mean_reward": 0.3 * number, "epoch/reward_std": 0.4, "solved_share": 0.9, **named}
    write_json(layout.metrics("reward", number), own)
    write_text(layout.reward_histogram(number), histogram_csv(reward_histogram([0.0, 1.0, 1.0], 0.0, 1.0)))
    write_json(layout.metrics("update", number), {"kl": 0.01, "entropy": 0.4})
    rows = [f"{i},{luck.random()},{luck.random() / 10},{1 + luck.random()}" for i in range(1, 31)]
    write_text(layout.steps(number), "\n".join(["step,loss,kl,entropy", *rows]) + "\n")
    members = 40
    written = make_group(
        [f"return {i}" for i in range(members)],
        [Result(status="ok", value=1)] * members,
        problem=Problem(problem_id="p", question="?", answer=1, source="test"),
        workflow_id=[f"w{i}" for i in range(members)],
    )
    group = with_rewards(written, [0.5] * members)
    write_rewarded(layout.trajectories(number), [group])
    influences = [luck.gauss(0, 1e-6) for _ in range(members)]
    write_jsonl(layout.selection(number), selected_by_influence(group, influences))
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1400 300"><text y="20">tree {number}</text></svg>'
    write_text(layout.tree(number), picture)


def add_base(layout: Layout, chance: float) -> None:
    """Let a run have had a warm start, of a base that solved a problem with this probability."""
    params = load_params(layout.root / "params.yaml")
    problems = [problem(i) for i in range(PROBLEMS)]
    outcomes = [problem_outcome(p, attempts(p, chance, random.Random(i))) for i, p in enumerate(problems)]
    write_jsonl(layout.evaluation("before") / "base.jsonl", outcomes)
    of_base = summarise(outcomes, params.evaluation, params.seed)
    numbers = read_metrics(layout, "evaluate@before") | {f"{BASE}{name}": value for name, value in of_base.items()}
    write_json(layout.metrics("evaluate", "before"), numbers)
