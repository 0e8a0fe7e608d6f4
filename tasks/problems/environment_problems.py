"""Check of the problems that an environment writes itself."""

from collections.abc import Mapping, Sequence
from typing import get_args

from tasks.errors import GraftError
from tasks.params.params import Params
from tasks.records.problems import Problem, Split


def checked_problems(written: Mapping[Split, Sequence[Problem]], params: Params) -> dict[Split, list[Problem]]:
    """The problems of every split.

    Raises GraftError if a split has another size than the params ask for, or an id or a question, siblings included,
    occurs twice: a test question that train has too would be measured as learned.
    """
    where = f"environment: {params.environment.name}.problems"
    problems: dict[Split, list[Problem]] = {split: list(written.get(split, ())) for split in get_args(Split)}
    ids: dict[str, str] = {}
    questions: dict[str, str] = {}
    for split, listed in problems.items():
        size = getattr(params.problems, split)
        if len(listed) != size:
            raise GraftError(f"{where}: {len(listed)} problems for {split}, problems.{split} is {size}; return as many")
        for problem in listed:
            _refuse_twice(where, "problem_id", problem.problem_id, split, ids)
            for question in problem.questions:
                _refuse_twice(where, "question", question, split, questions)
    return problems


def _refuse_twice(where: str, what: str, text: str, split: str, known: dict[str, str]) -> None:
    if text in known:
        raise GraftError(f"{where}: the {what} {text!r:.80} is in {known[text]} and again in {split}; write another")
    known[text] = split
