"""Number of evaluations that the statement-level search needs, by rule.

    python -m benchmarks.search --gsm8k ../shared/data/gsm8k/train.jsonl

GSM8K: the first 500 problems, answer-only and without a model: a program is a hit when its value is the answer, and
one evaluation is one complete program whose behaviour (on the question's numbers and two random perturbations of
them) is new. The prior of `puct` and the lengths of `random` are learnt from the annotated solutions of the problems
after the first 1000. A first hit is *annotated* when it is the same function of the question's numbers as a reading
of the problem's annotations. Every hit that counts was run in the sandbox.

For comparison: the stage `coldstart` on problems without siblings, from the answers alone.

Generated problems are searched with six siblings; workflows that solve them all are run on 20 unseen siblings.

The last line of standard output is one JSON object, all shares between 0 and 1.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.statement_search.annotated import Solution, is_annotated, likely_program, parse_solution
from benchmarks.statement_search.array_search import SearchPlan, SearchResult, search
from benchmarks.statement_search.confirm import ConfirmedHit, confirm_hits
from benchmarks.statement_search.evaluator import behaviour
from benchmarks.support.process_pool import pool_of
from flows.process import settings
from flows.process.exit_codes import exit_code
from tasks.coldstart.enumerate_programs import Expression, write_workflow
from tasks.coldstart.expression_space import APPLY, STATEMENTS, Array, Space, space_of
from tasks.coldstart.prior_training import Example, train_prior
from tasks.coldstart.solve_problems import TRIED, confirm_candidates, find_candidates, order_candidates
from tasks.coldstart.statement_prior import Prior
from tasks.errors import GraftError
from tasks.problems.generate import generate_splits
from tasks.programs.answer_check import solved_share
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records import Problem
from tasks.search.rules import RULES, Rule

if TYPE_CHECKING:
    from rich.table import Table

SEARCHED = slice(0, 500)
LEARNT = slice(1000, None)
BUDGETS = (200, 1000, 5000)
EPOCHS = 25
FRESH = 20
OPERATIONS, PASSES = 4, 1  # of cold start, as params.yaml is shipped
FULL_TREES = 200  # evaluations for each problem, hits or not, where the speed is measured


@dataclass(frozen=True)
class AnnotatedProblem:
    """A problem of GSM8K with its space; no solution if its annotations do not parse."""

    question: str
    space: Space
    solution: Solution | None


def read_gsm8k(path: Path) -> list[AnnotatedProblem]:
    """All problems of a GSM8K file. Raises GraftError where it is not one."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise GraftError(f"{path}: {error.strerror}; name GSM8K's train.jsonl with --gsm8k") from None
    problems = []
    for number, line in enumerate(lines):
        try:
            record = json.loads(line)
            question, text = str(record["question"]), str(record["answer"])
            answer = float(text.rpartition("####")[2].replace(",", ""))
        except (ValueError, KeyError, TypeError):
            raise GraftError(f"{path}:{number + 1}: no line of GSM8K; it needs question and answer `#### 72`") from None
        problems.append(
            AnnotatedProblem(question, space_of(f"gsm8k-{number}", [question], [answer]), parse_solution(text, answer))
        )
    if len(problems) <= (LEARNT.start or 0):
        raise GraftError(
            f"{path}: {len(problems)} problems; name a file of over {LEARNT.start}, to learn from the later ones"
        )
    return problems


def examples_of(problems: Sequence[AnnotatedProblem]) -> list[Example]:
    """Those whose annotations are a program of the space."""
    pairs = [(p.space, likely_program(p.solution, p.space)) for p in problems if p.solution]
    return [(space, program) for space, program in pairs if program]


def lengths_of(examples: Sequence[Example]) -> tuple[float, ...]:
    """Number of programs with 1, 2 … statements."""
    counts = Counter(len(program) for _, program in examples)
    return tuple(float(counts[length + 1]) for length in range(STATEMENTS))


@dataclass(frozen=True)
class Run:
    """One rule on all problems."""

    outcomes: list[SearchResult]
    cpu_seconds: float

    @property
    def evaluations(self) -> int:
        return sum(outcome.evaluations for outcome in self.outcomes)


def timed_search(spaces: Sequence[Space], plan: SearchPlan, prior: Prior | None) -> Run:
    """The search, and the CPU time of this process that it took: trees, prior and all."""
    started = time.process_time()
    outcomes = search(spaces, plan, prior)
    return Run(outcomes, time.process_time() - started)


def solved(hits: Sequence[ConfirmedHit], budget: int, problems: int) -> float:
    """Share of the problems that have a hit within `budget` evaluations."""
    return len({hit.problem for hit in hits if hit.evaluation <= budget}) / problems


def annotated_share(hits: Sequence[ConfirmedHit], budget: int, problems: Sequence[AnnotatedProblem]) -> float:
    """Share of the problems solved within `budget` whose first hit behaves like the annotated program."""
    first = {hit.problem: hit for hit in reversed(hits) if hit.evaluation <= budget}
    right = [_is_annotated(problems[hit.problem], hit) for hit in first.values()]
    return sum(right) / max(1, len(right))


def _is_annotated(problem: AnnotatedProblem, hit: ConfirmedHit) -> bool:
    return problem.solution is not None and is_annotated(
        behaviour(hit.program, problem.space), problem.solution, problem.space
    )


def cold_start(problems: Sequence[AnnotatedProblem], sandbox: Sandbox) -> tuple[float, float]:
    """Share of the problems that cold start solves from one answer; of these, share that behaves as annotated."""
    known = {p.space.problem_id: p for p in problems}
    records = [_record(problem) for problem in problems]
    listed = order_candidates(records, [find_candidates(record, OPERATIONS) for record in records], PASSES, seed=0)
    tried = [(record, e) for record, found in zip(records, listed, strict=True) for e in found[:TRIED]]
    by_code = {(record.problem_id, write_workflow(e, HEADER)): e for record, e in tried}
    chosen = [(known[w.problem_id], by_code[w.problem_id, w.code]) for w in confirm_candidates(tried, sandbox)]
    right = [
        problem.solution is not None and is_annotated(_values(e, problem.space), problem.solution, problem.space)
        for problem, e in chosen
    ]
    return len(chosen) / len(problems), sum(right) / max(1, len(right))


def _record(problem: AnnotatedProblem) -> Problem:
    answer = float(problem.space.answers[0])
    return Problem(problem_id=problem.space.problem_id, question=problem.question, answer=answer, source="gsm8k")


def _values(expression: Expression, space: Space) -> Array:
    """[I]: on all inputs of the space; NaN where it reads a quantity that the space has not."""
    if expression.left is None or expression.right is None:
        texts = space.texts
        inside = expression.leaf in texts
        return space.inputs[:, texts.index(expression.leaf)] if inside else np.full(len(space.inputs), np.nan)
    with np.errstate(all="ignore"):
        made: Array = APPLY[expression.symbol](_values(expression.left, space), _values(expression.right, space))
    return made


def generated(count: int, siblings: int) -> list[Problem]:
    """Generated problems with `siblings` siblings each, more than params.yaml allows a run to ask for."""
    return generate_splits({"train": count}, phrasings=3, siblings=siblings, unseen=0.0, seed=0, operations=4)["train"]


@dataclass(frozen=True)
class Siblings:
    """Counts of workflows that solve a generated problem and its six siblings."""

    problems: int
    solved: int
    confirmed: int
    right: int  # confirmed workflows that are right on all fresh siblings


def on_fresh_siblings(prior: Prior, count: int, sandbox: Sandbox) -> Siblings:
    """Search generated problems with six siblings; run the confirmed workflows on FRESH others."""
    problems = generated(count, 6 + FRESH)
    known = [(p.questions[:-FRESH], p.numbers[:-FRESH]) for p in problems]
    spaces = [
        space_of(problem.problem_id, questions, answers)
        for problem, (questions, answers) in zip(problems, known, strict=True)
    ]
    outcomes = search(spaces, SearchPlan("puct", budget=1000, seed=0), prior)
    hits = confirm_hits(spaces, outcomes, [questions for questions, _ in known], sandbox)
    programs = [Program(hit.code, problems[hit.problem].questions[-FRESH:]) for hit in hits]
    shares = [
        solved_share(results, problems[hit.problem].answers[-FRESH:])
        for hit, results in zip(hits, sandbox.run(programs), strict=True)
    ]
    return Siblings(count, len({hit.problem for hit in hits}), len(hits), sum(share == 1.0 for share in shares))


def plan_of(rule: Rule, lengths: tuple[float, ...]) -> SearchPlan:
    """Each rule's plan. The constant of puct did best of 0.7, 1.5 and 3 on problems 500–1000; that of uct is √2."""
    exploration = 1.4 if rule == "uct" else 1.5
    return SearchPlan(rule, max(BUDGETS), seed=0, exploration=exploration, lengths=lengths)


def table(figures: dict[str, float], gold: dict[str, list[float]], runs: dict[Rule, Run]) -> "Table":
    """A row a rule."""
    from rich.table import Table

    made = Table(title="GSM8K problems solved, in brackets: first hit behaves as annotated", title_justify="left")
    made.add_column("rule")
    for budget in BUDGETS:
        made.add_column(f"{budget} evaluations", justify="right")
    made.add_column("evaluations", justify="right")
    made.add_column("CPU seconds", justify="right")
    for rule, run in runs.items():
        shares = [f"{figures[f'{rule}_solved_{b}']:.1%} ({g:.0%})" for b, g in zip(BUDGETS, gold[rule], strict=True)]
        made.add_row(rule, *shares, f"{run.evaluations:,}", f"{run.cpu_seconds:.0f}")
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the tables, and as the last line the figures."""
    from rich.console import Console

    options = _options(arguments)
    settings.set_environment()
    problems = read_gsm8k(options.gsm8k)
    examples = examples_of(problems[LEARNT])
    started = time.monotonic()
    prior = train_prior(examples, EPOCHS, seed=0)
    _say(f"prior learnt from {len(examples)} annotated programs in {time.monotonic() - started:.0f} s")

    searched = problems[SEARCHED]
    spaces, lengths = [p.space for p in searched], lengths_of(examples)
    full = timed_search(spaces, SearchPlan("puct", FULL_TREES, seed=0, stop_at=FULL_TREES + 1), prior)
    _say(f"speed: {full.evaluations} evaluations in {full.cpu_seconds:.1f} CPU seconds")
    runs: dict[Rule, Run] = {}
    with pool_of(os.cpu_count()) as pool:
        plans = {rule: plan_of(rule, lengths) for rule in RULES}
        futures = {r: pool.submit(timed_search, spaces, p, prior if r == "puct" else None) for r, p in plans.items()}
        for rule, future in futures.items():
            runs[rule] = future.result()
            _say(f"{rule}: {runs[rule].cpu_seconds:.0f} CPU seconds")

    figures: dict[str, float] = {}
    gold: dict[str, list[float]] = {}
    with Sandbox(seconds=2.0, memory_mb=512, allow_weak=False) as sandbox:
        for rule, run in runs.items():
            hits = confirm_hits(spaces, run.outcomes, [[p.question] for p in searched], sandbox)
            refused = sum(len(outcome.hits) for outcome in run.outcomes) - len(hits)
            if refused:
                _say(f"{rule}: the sandbox refused {refused} hits")
            for budget in BUDGETS:
                figures[f"{rule}_solved_{budget}"] = solved(hits, budget, len(searched))
            gold[rule] = [annotated_share(hits, budget, searched) for budget in BUDGETS]
        figures["coldstart_solved"], figures["coldstart_gold"] = cold_start(searched, sandbox)
        fresh = on_fresh_siblings(prior, options.generated, sandbox)
    figures["puct_first_hit_gold"] = gold["puct"][0]
    figures["kept_right_on_fresh_siblings"] = fresh.right / max(1, fresh.confirmed)
    figures["evaluations_per_second"] = full.evaluations / full.cpu_seconds

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(figures, gold, runs))
    console.print(
        f"cold start: {figures['coldstart_solved']:.1%} solved, {figures['coldstart_gold']:.0%} of them as annotated"
    )
    console.print(
        f"generated problems with 6 siblings: {fresh.solved} of {fresh.problems} solved; of {fresh.confirmed} "
        f"workflows kept {fresh.right} are right on {FRESH} fresh siblings"
    )
    console.print(f"speed: {figures['evaluations_per_second']:,.0f} evaluations per CPU second, full trees of puct")
    print(json.dumps({name: round(number, 4) for name, number in figures.items()}))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.search", description=__doc__.split("\n")[0] if __doc__ else ""
    )
    parser.add_argument(
        "--gsm8k", type=Path, default=Path("../shared/data/gsm8k/train.jsonl"), metavar="FILE", help="its train.jsonl"
    )
    parser.add_argument("--generated", type=int, default=200, metavar="COUNT", help="generated problems to search")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
