"""The problems that an environment writes itself, checked."""

from collections.abc import Mapping, Sequence
from typing import get_args

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.known_problems import KnownProblems, unknown
from tasks.params.params import Params
from tasks.records.problems import Problem, Split


def written_problems(environment: Environment, params: Params, known: KnownProblems) -> dict[Split, list[Problem]]:
    """The problems of every split, without those that may not be in it because of what a policy's lineage knows.

    Where some are missing twice as many are asked for. Raises GraftError if that is too few, or by `checked_problems`.
    """
    sizes = params.problems.splits
    barred = {"test": known.learnt, "dev": [*known.learnt, *known.tested]}
    for factor in (1, 2):
        asked = params.problems.model_copy(update={split: factor * size for split, size in sizes.items()})
        own = params.model_copy(update={"problems": asked})
        written = checked_problems(environment.problems(asked, params.seed), own)
        usable = {split: unknown(listed, barred.get(split, known.tested)) for split, listed in written.items()}
        short = [split for split, size in sizes.items() if len(usable[split]) < size]
        if not short:
            return {split: listed[: sizes[split]] for split, listed in usable.items()}
    split = short[0]
    raise GraftError(
        f"environment: {params.environment.name} writes {len(usable[split])} problems for {split} that policy.base "
        f"does not know from another, but problems.{split} is {sizes[split]}; ask for fewer, or begin with another base"
    )


def checked_problems(written: Mapping[Split, Sequence[Problem]], params: Params) -> dict[Split, list[Problem]]:
    """The problems of every split.

    Raises GraftError if a split has another size than the params ask for, or an id or a question, siblings included,
    occurs twice: a test question that train has too would be measured as learned.
    """
    where = f"environment: {params.environment.name}.problems"
    splits = (split for split in get_args(Split) if split != "confirm")  # written when a policy is confirmed
    problems: dict[Split, list[Problem]] = {split: list(written.get(split, ())) for split in splits}
    ids: dict[str, str] = {}
    questions: dict[str, str] = {}
    for split, listed in problems.items():
        size = params.problems.splits[split]
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
