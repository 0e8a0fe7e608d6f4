"""Workflows for problems without a policy: by enumeration, or the solutions that problems of code bring."""

import random
from collections.abc import Callable, Iterable, Sequence

from tasks.coldstart.enumerate_programs import Expression, shortest_expressions, write_workflow
from tasks.params.params import Params
from tasks.params.sections import SandboxParams
from tasks.programs.answer_check import solved_share
from tasks.programs.code_blocks import code_of
from tasks.programs.contract import HEADER, workflow_id
from tasks.programs.operators.builtin import numbers
from tasks.programs.sandbox.sandbox import Program, Sandbox, make_sandbox
from tasks.programs.sandbox.unit_tests.outcomes import Outcome, UnitTests, run_unit_tests
from tasks.records import UNIT_TESTS, CodeVerdict, Problem, Result, Workflow
from tasks.seeds import derive_seed

TRIED = 8  # candidates of a problem that are run; the first one is nearly always right
FURTHER = 1  # without siblings the right program often has one operation more than the shortest one
SCALED = 2  # random inputs of a problem without siblings, in addition to its own


def solve_problems(
    problems: Sequence[Problem],
    params: Params,
    track: Callable[[Sequence[Problem]], Iterable[Problem]],
) -> list[Workflow]:
    """The likeliest shortest workflow of each problem that solves it and its siblings; `track` reports progress."""
    listed = [find_candidates(problem, params.coldstart.operations) for problem in track(problems)]
    tried = [(p, e) for p, candidates in zip(problems, listed, strict=True) for e in candidates[:TRIED]]
    with make_sandbox(params.sandbox) as sandbox:
        return confirm_candidates(tried, sandbox)


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
    found: dict[str, Workflow] = {}
    for (problem, expression), code, results in zip(tried, codes, sandbox.run(programs), strict=True):
        if problem.problem_id not in found and solved_share(results, problem.answers) == 1.0:
            depth = len(expression.leaves) - 1
            found[problem.problem_id] = workflow_record(problem, code, depth, results)
    return list(found.values())


def workflow_record(problem: Problem, code: str, depth: int, results: Sequence[Result]) -> Workflow:
    """The record of a workflow that was found without a policy. `results`: on the problem, then on its siblings."""
    return Workflow(
        problem_id=problem.problem_id,
        split="train",
        workflow_id=workflow_id(code),
        code=code,
        proposer="coldstart",
        parent_id=None,
        depth=depth,
        visits=1,
        value=1.0,
        prior=1.0,
        result=results[0],
        sibling_results=list(results[1:]),
    )


def known_solutions(problems: Sequence[Problem], params: SandboxParams) -> list[Workflow]:
    """The solution of each problem of code that brings one and passes its shown tests in the sandbox, if it has any."""
    found = [(p, p.answer) for p in problems if p.evaluator == UNIT_TESTS and isinstance(p.answer, dict)]
    coded = [(problem, answer, code_of(str(answer["solution"]))) for problem, answer in found if answer["solution"]]
    if not coded:
        return []
    with make_sandbox(params) as sandbox:
        outcomes = run_unit_tests(sandbox, [(code, UnitTests.of(answer, "shown")) for _, answer, code in coded])
    return [
        workflow_record(problem, code, 0, [Result(status="ok", value=_verdict(outcome))])
        for (problem, _, code), outcome in zip(coded, outcomes, strict=True)
        if outcome is not None and outcome.passed == outcome.total
    ]


def _verdict(shown: Outcome) -> CodeVerdict:
    return CodeVerdict(hidden_passed=0, hidden=0, shown_passed=shown.passed, shown=shown.total)
