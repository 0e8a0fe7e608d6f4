"""A problem and its siblings as what a workflow is run on and judged by."""

from tasks.records import Problem


def questions_of(problem: Problem) -> tuple[str, ...]:
    """The problem's question, then its siblings'."""
    return (problem.question, *(s.question for s in problem.siblings))


def answers_of(problem: Problem) -> list[float]:
    """The problem's answer, then its siblings'."""
    return [problem.answer, *(s.answer for s in problem.siblings)]
