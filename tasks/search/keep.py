"""Keeping what a search found: every program is written as a workflow and run in the sandbox before it counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.search.space import Program, Space, source_of
from tasks.search.statements import Outcome
from tasks.workflows import sandbox as boxes
from tasks.workflows.contract import HEADER
from tasks.workflows.judge import solved_share


@dataclass(frozen=True)
class Kept:
    """A workflow that gave all answers of its problem when it was run."""

    problem: int  # place in the list of problems
    evaluation: int  # it was the so-many-th that the search tried
    program: Program
    code: str


def kept(
    spaces: Sequence[Space],
    outcomes: Sequence[Outcome],
    questions: Sequence[Sequence[str]],
    sandbox: boxes.Sandbox,
) -> list[Kept]:
    """The hits that the sandbox confirms, in the order of problems and evaluations."""
    hits = [
        Kept(place, evaluation, program, source_of(space, program, HEADER))
        for place, (space, outcome) in enumerate(zip(spaces, outcomes, strict=True))
        for evaluation, program in outcome.hits
    ]
    results = sandbox.run([boxes.Program(hit.code, tuple(questions[hit.problem])) for hit in hits])
    return [
        hit
        for hit, given in zip(hits, results, strict=True)
        if solved_share(given, spaces[hit.problem].answers.tolist()) == 1.0
    ]
