"""Stage `coldstart`: workflows for the train problems without a policy (only for `policy.base: scratch`)."""

import sys
from collections.abc import Sequence
from math import inf

from rich.console import Console
from rich.progress import track

from tasks.artifacts import read_jsonl, write_json
from tasks.coldstart.candidate_scores import CandidatePool, score_candidates
from tasks.coldstart.enumerate_programs import Expression, shortest_expressions, write_workflow
from tasks.coldstart.expression_space import STATEMENTS, Space, other_inputs, space_of
from tasks.coldstart.expression_space import Program as SpaceProgram
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.programs.answer_check import solved_share
from tasks.programs.contract import HEADER, workflow_id
from tasks.programs.operators.builtin import numbers
from tasks.programs.sandbox.sandbox import Program, Sandbox, make_sandbox
from tasks.programs.workflow_files import write_workflows
from tasks.records import Problem, Result, Workflow

TRIED = 8  # candidates of a problem that are run: all give the right values, so the first one nearly always holds
JUDGED = 40  # candidates of a problem without siblings that are weighed against each other
FURTHER = 1  # without siblings the right program often takes an operation more than the shortest that gives the answer


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001
    """For each train problem the likeliest of its shortest workflows that solve it and all of its siblings.

    Without siblings: of those that are at most FURTHER operations longer, too.
    """
    problems = read_jsonl(layout.problems("train"), Problem) if params.policy.base == "scratch" else []
    found = []
    if problems:
        console, quiet = Console(stderr=True), not sys.stderr.isatty()
        watched = track(problems, "cold-start search", console=console, disable=quiet, transient=True)
        listed = [find_candidates(problem, params.coldstart.operations) for problem in watched]
        listed = order_candidates(problems, listed, params.coldstart.em_passes, params.seed)
        tried = [(p, e) for p, found in zip(problems, listed, strict=True) for e in found[:TRIED]]
        with make_sandbox(params.sandbox) as sandbox:
            found = confirm_candidates(tried, sandbox)
    write_workflows(layout.coldstart, [(found, [])])
    write_json(layout.metrics("coldstart"), {"problems": len(problems), "solved": len(found)})


def find_candidates(problem: Problem, operations: int) -> list[Expression]:
    """Expressions that give all answers of a problem, likelier ones first.

    Siblings leave hardly any wrong one. A problem without them has many: none may stand for another that merely has
    the same value there, and the least strange of them all is likelier than the shortest.
    """
    quantities = [numbers(question) for question in problem.questions]
    if problem.siblings:
        return shortest_expressions(quantities, problem.answers, operations)
    others = other_inputs(problem.problem_id, quantities[0])
    return shortest_expressions([*quantities, *others], problem.answers, operations, FURTHER)


def order_candidates(
    problems: Sequence[Problem], listed: Sequence[list[Expression]], passes: int, seed: int
) -> list[list[Expression]]:
    """The candidates of each problem; without siblings, equally strange ones in the order that all problems suggest.

    Exact candidates of problems with siblings teach, too. See regularity.py; 0 passes leave all as it is.
    """
    if passes == 0 or all(problem.siblings for problem in problems):
        return list(listed)
    pools, places = [], []
    for problem, found in zip(problems, listed, strict=True):
        space = space_of(problem.problem_id, problem.questions, problem.answers)
        pairs = [(place, program_of(e, space)) for place, e in enumerate(found[: 1 if problem.siblings else JUDGED])]
        pools.append(CandidatePool(space, [program for _, program in pairs if program], bool(problem.siblings)))
        places.append([place for place, program in pairs if program])
    ordered = []
    for found, own, scores in zip(listed, places, score_candidates(pools, passes, seed), strict=True):
        score = dict(zip(own, scores.tolist(), strict=True))
        order = sorted(range(len(found)), key=lambda i: (sum(found[i].strangeness[:2]), -score.get(i, -inf)))
        ordered.append([found[i] for i in order])
    return ordered


def program_of(expression: Expression, space: Space) -> SpaceProgram | None:
    """The expression as statements over a space; None where it reads a quantity that the space has not."""
    texts, statements = space.texts, list[tuple[str, int, int]]()

    def write(part: Expression) -> int:
        if part.left is None or part.right is None:
            return STATEMENTS + texts.index(part.leaf)
        left, right = write(part.left), write(part.right)
        statements.append((part.symbol, left, right))
        return len(statements) - 1

    if not set(expression.leaves) <= set(texts):
        return None
    write(expression)
    return tuple(statements)


def confirm_candidates(tried: list[tuple[Problem, Expression]], sandbox: Sandbox) -> list[Workflow]:
    """Each problem's first candidate that solves all its questions when it is really run."""
    codes = [write_workflow(expression, HEADER) for _, expression in tried]
    programs = [Program(code, problem.questions) for code, (problem, _) in zip(codes, tried, strict=True)]
    found: dict[str, Workflow] = {}
    for (problem, expression), code, results in zip(tried, codes, sandbox.run(programs), strict=True):
        if problem.problem_id not in found and solved_share(results, problem.answers) == 1.0:
            found[problem.problem_id] = _record(problem, expression, code, results)
    return list(found.values())


def _record(problem: Problem, expression: Expression, code: str, results: list[Result]) -> Workflow:
    return Workflow(
        problem_id=problem.problem_id,
        split="train",
        workflow_id=workflow_id(code),
        code=code,
        proposer="coldstart",
        parent_id=None,
        depth=len(expression.leaves) - 1,
        visits=1,
        value=1.0,
        prior=1.0,
        result=results[0],
        sibling_results=results[1:],
    )
