"""The problems that an environment writes itself, checked."""

from collections.abc import Mapping, Sequence
from typing import get_args

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.known_problems import KnownProblems, unknown
from tasks.params.params import Params
from tasks.records import Problem, Split

CALLS = 4
"""Calls of an environment for more problems, where some that it wrote may not be in their split."""


def written_problems(environment: Environment, params: Params, known: KnownProblems) -> dict[Split, list[Problem]]:
    """The problems of every split, without those that may not be in it because of what a policy's lineage knows.

    The environment is asked for as many more. Raises GraftError if it writes too few others, and as `checked_problems`.
    """
    sizes = asked = params.problems
    usable: dict[Split, list[Problem]] = {}
    missing: dict[Split, int] = {}
    for _ in range(CALLS):
        try:
            own = params.model_copy(update={"problems": asked})
            written = checked_problems(environment.problems(asked, params.seed), own)
        except GraftError:
            if not missing:
                raise
            break
        usable = {split: unknown(listed, _barred(split, known)) for split, listed in written.items()}
        missing = {split: short for split in usable if (short := getattr(sizes, split) - len(usable[split])) > 0}
        if not missing:
            return {split: listed[: getattr(sizes, split)] for split, listed in usable.items()}
        asked = asked.model_copy(update={split: getattr(asked, split) + short for split, short in missing.items()})
    split = next(iter(missing))
    raise GraftError(
        f"environment: {params.environment.name} writes {len(usable[split])} problems for {split} that policy.base "
        f"does not know from another split, but problems.{split} is {getattr(sizes, split)}; ask for fewer, or begin "
        "anew with another policy.base"
    )


def _barred(split: Split, known: KnownProblems) -> Sequence[str]:
    """The keys of problems that may not be in a split."""
    return {"test": known.learnt, "dev": [*known.learnt, *known.tested]}.get(split, known.tested)


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
