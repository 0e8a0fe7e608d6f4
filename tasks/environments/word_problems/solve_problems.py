"""Workflows for problems with numbers, by enumeration."""

import random
from collections.abc import Sequence

from tasks.core.progress import show_progress
from tasks.environments.word_problems.enumerate_programs import Expression, shortest_expressions, write_workflow
from tasks.params.sections import SandboxParams
from tasks.programs.answer_check import is_right
from tasks.programs.contract import HEADER
from tasks.programs.operators.builtin import numbers
from tasks.programs.sandbox.sandbox import Program, Sandbox, make_sandbox
from tasks.programs.workflow_files import solution_record
from tasks.records.problems import Problem
from tasks.records.search import Workflow
from tasks.seeds import derive_seed

TRIED = 8  # candidates of a problem that are run; the first one is nearly always right
FURTHER = 1  # without siblings the right program often has one operation more than the shortest one
SCALED = 2  # random inputs of a problem without siblings, in addition to its own


def solve_problems(problems: Sequence[Problem], operations: int, sandbox: SandboxParams) -> dict[str, Workflow | None]:
    """The likeliest shortest workflow that solves a problem and its siblings, for each problem with numbers.

    `operations`: of the longest one.
    """
    searched = [problem for problem in problems if problem.numbers]
    if not searched:
        return {}
    tried = []
    with show_progress("cold-start search", len(searched), "problems") as advance:
        for problem in searched:
            tried += [(problem, candidate) for candidate in find_candidates(problem, operations)[:TRIED]]
            advance()
    with make_sandbox(sandbox) as box:
        workflows = confirm_candidates(tried, box)
    return dict.fromkeys(p.problem_id for p in searched) | {w.problem_id: w for w in workflows}


def find_candidates(problem: Problem, operations: int) -> list[Expression]:
    """Expressions that give all answers of a problem, likelier ones first.

    With siblings that have other answers hardly any wrong one remains. Without, random inputs keep expressions apart
    that have the same value only on this question, and expressions up to FURTHER operations longer are searched.
    """
    quantities = [numbers(question) for question in problem.questions]
    if problem.answers_vary:
        return shortest_expressions(quantities, problem.numbers, operations)
    others = other_inputs(problem.problem_id, quantities[0])
    return shortest_expressions([*quantities, *others], problem.numbers, operations, FURTHER)


def other_inputs(problem_id: str, quantities: Sequence[float]) -> list[list[float]]:
    """[SCALED, Q]: randomly scaled quantities of a problem, without known answers."""
    rng = random.Random(derive_seed("search", "perturbations", problem_id))
    return [[value * rng.uniform(0.6, 1.7) for value in quantities] for _ in range(SCALED)]


def confirm_candidates(tried: list[tuple[Problem, Expression]], sandbox: Sandbox) -> list[Workflow]:
    """For each problem the first candidate that solves all its questions in the sandbox."""
    codes = [write_workflow(expression, HEADER) for _, expression in tried]
    programs = [Program(code, problem.questions) for code, (problem, _) in zip(codes, tried, strict=True)]
    workflows: dict[str, Workflow] = {}
    for (problem, expression), code, results in zip(tried, codes, sandbox.run(programs), strict=True):
        if problem.problem_id not in workflows and all(map(is_right, results, problem.answers)):
            depth = len(expression.leaves) - 1
            workflows[problem.problem_id] = solution_record(problem, code, depth, results)
    return list(workflows.values())
