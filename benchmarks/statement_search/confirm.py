"""Confirmation of hits: every program is written as a workflow and run in the sandbox before it counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.statement_search.array_search import SearchResult
from tasks.coldstart.expression_space import STATEMENTS, Program, Space
from tasks.programs.answer_check import solved_share
from tasks.programs.contract import HEADER
from tasks.programs.sandbox import sandbox as boxes


@dataclass(frozen=True)
class ConfirmedHit:
    """A workflow that gave all answers of its problem in the sandbox."""

    problem: int  # place in the list of problems
    evaluation: int  # it was the so-many-th that the search tried
    program: Program
    code: str


def confirm_hits(
    spaces: Sequence[Space],
    outcomes: Sequence[SearchResult],
    questions: Sequence[Sequence[str]],
    sandbox: boxes.Sandbox,
) -> list[ConfirmedHit]:
    """The hits that the sandbox confirms, in the order of problems and evaluations."""
    hits = [
        ConfirmedHit(place, evaluation, program, source_of(space, program, HEADER))
        for place, (space, outcome) in enumerate(zip(spaces, outcomes, strict=True))
        for evaluation, program in outcome.hits
    ]
    results = sandbox.run([boxes.Program(hit.code, tuple(questions[hit.problem])) for hit in hits])
    return [
        hit
        for hit, given in zip(hits, results, strict=True)
        if solved_share(given, spaces[hit.problem].answers.tolist()) == 1.0
    ]


def source_of(space: Space, program: Program, header: str) -> str:
    """The code of the workflow: one line for each statement that the last one needs."""
    texts = space.texts
    needed = needed_statements(program)
    names = {statement: "abcdef"[place] for place, statement in enumerate(needed)}

    def write(operand: int) -> str:
        return names[operand] if operand < STATEMENTS else texts[operand - STATEMENTS]

    lines = []
    for statement in needed:
        symbol, left, right = program[statement]
        lines.append(f"    {names[statement]} = {write(left)} {symbol} {write(right)}\n")
    return header + "".join(lines) + f"    return {names[needed[-1]]}\n"


def needed_statements(program: Program) -> list[int]:
    """The statements that the last one is computed from, itself included, in order."""
    needed = {len(program) - 1}
    for statement in range(len(program) - 1, -1, -1):
        if statement in needed:
            needed.update(operand for operand in program[statement][1:] if operand < STATEMENTS)
    return sorted(needed)
