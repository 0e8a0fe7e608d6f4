"""Cold-start search: workflows for problems by enumeration, without a policy."""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from tasks.coldstart.candidate_scores import CandidatePool, score_candidates
from tasks.coldstart.enumerate_programs import Expression, shortest_expressions, write_workflow
from tasks.coldstart.expression_space import STATEMENTS, Space, other_inputs, space_of
from tasks.coldstart.expression_space import Program as SpaceProgram
from tasks.params.params import Params
from tasks.programs.answer_check import solved_share
from tasks.programs.contract import HEADER, workflow_id
from tasks.programs.operators.builtin import numbers
from tasks.programs.sandbox.sandbox import Program, Sandbox, make_sandbox
from tasks.records import Problem, Result, Workflow

TRIED = 8  # candidates of a problem that are run; the first one is nearly always right
RANKED = 40  # candidates of a problem without siblings that are ranked by the statement prior
FURTHER = 1  # without siblings the right program often has one operation more than the shortest one


def solve_problems(
    problems: Sequence[Problem],
    params: Params,
    track: Callable[[Sequence[Problem]], Iterable[Problem]],
) -> list[Workflow]:
    """The likeliest shortest workflow of each problem that solves it and its siblings; `track` reports progress."""
    listed = [find_candidates(problem, params.coldstart.operations) for problem in track(problems)]
    listed = order_candidates(problems, listed, params.coldstart.em_passes, params.seed)
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


def order_candidates(
    problems: Sequence[Problem], listed: Sequence[list[Expression]], passes: int, seed: int
) -> list[list[Expression]]:
    """The candidates of each problem; without siblings, equally strange ones are sorted by a learned prior.

    The prior (candidate_scores.py) is also trained on problems with siblings. 0 passes leave the order unchanged.
    """
    if passes == 0 or all(problem.answers_vary for problem in problems):
        return list(listed)
    pools, places = [], []
    for problem, found in zip(problems, listed, strict=True):
        space = space_of(problem.problem_id, problem.questions, problem.numbers)
        ranked = found[: 1 if problem.answers_vary else RANKED]
        pairs = [(place, program_of(expression, space)) for place, expression in enumerate(ranked)]
        pools.append(CandidatePool(space, [program for _, program in pairs if program], problem.answers_vary))
        places.append([place for place, program in pairs if program])
    ordered = []
    for found, own, scores in zip(listed, places, score_candidates(pools, passes, seed), strict=True):
        score = dict(zip(own, scores.tolist(), strict=True))
        order = sorted(range(len(found)), key=lambda i: (sum(found[i].strangeness[:2]), -score.get(i, -inf)))
        ordered.append([found[i] for i in order])
    return ordered


def program_of(expression: Expression, space: Space) -> SpaceProgram | None:
    """The expression as statements over a space; None if it uses a quantity that the space lacks."""
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
