"""Demonstrations: the file of `bootstrap.demonstrations`, or the worked solutions of the train problems' own file.

None of what is tested on is among them, nor what nearly repeats it. Generated problems differ by their splits; those
of one template are alike by intention.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.artifacts import read_numbered
from tasks.environments.prompts import SCRATCH
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.known_problems import keys_of
from tasks.params.params import Params
from tasks.problems.near_duplicates import near_duplicates
from tasks.records.problems import Demonstrations, Problem, Split, WorkedExample
from tasks.warm_start import has_warm_start, is_pretrained

logger = logging.getLogger(__name__)


def demonstrations_of(
    root: Path, params: Params, environment: Environment, problems: Mapping[Split, Sequence[Problem]]
) -> Demonstrations:
    """What the first policy learns besides the environment's own solutions, and what it must not learn.

    Raises GraftError where a line of the file is none, or all lines ask what is tested on.
    """
    is_warm, file = has_warm_start(root, params), params.bootstrap.demonstrations
    if file is not None and not is_warm and is_pretrained(root, params):
        raise GraftError(
            f"bootstrap.demonstrations: {file}, but bootstrap.epochs is {params.bootstrap.epochs}, which is no warm "
            "start of a base: set it to a number of passes, 3 for instance, or bootstrap.demonstrations to null"
        )
    if not is_warm and (params.policy.base != SCRATCH or file is None):
        return Demonstrations()
    tested = [*problems["test"], *problems["dev"], *problems["confirm"]]
    keys = sorted(keys_of(*tested))
    if file is not None:
        return Demonstrations(examples=_of_file(root, file, tested), tested=keys)
    train = [problem for problem in problems["train"] if problem.template is None]
    repeats = _repeats(train, tested)
    solved = [problem for problem in train if problem.worked_solution and problem.problem_id not in repeats]
    written = [(problem.question, environment.worked_solution(problem)) for problem in solved]
    examples = [WorkedExample(question=asked, completion=text) for asked, text in written if text is not None]
    if repeats:
        logger.warning("%d train problems nearly repeat one that is tested on: not demonstrated", len(repeats))
    if len(examples) < len(solved):
        kind = f"texts, which environment {params.environment.name} does not write"
        logger.warning("worked solutions of %d train problems are %s: not learnt", len(solved) - len(examples), kind)
    return Demonstrations(examples=examples, repeats=sorted(repeats), tested=keys)


def _of_file(root: Path, name: str, tested: Sequence[Problem]) -> list[WorkedExample]:
    """The examples of a file but for those that ask what is tested on, or nearly."""
    examples = {f"{name}:{number}": example for number, example in read_numbered(root / name, WorkedExample)}
    asked = [  # under their places, which are no ids of problems
        Problem.model_construct(problem_id=place, question=e.question, answer=0, source=name)
        for place, e in examples.items()
    ]
    repeats = _repeats(asked, tested)
    left = [example for place, example in examples.items() if place not in repeats]
    if repeats:
        first = next(place for place in examples if place in repeats)
        what = f"{len(repeats)} of {len(examples)} demonstrations ask what a test problem asks, or nearly"
        if not left:
            raise GraftError(f"{first}: {what}, and none is left; add others")
        logger.warning("%s: %s, and are left out; this is the first", first, what)
    return left


def _repeats(asked: Sequence[Problem], tested: Sequence[Problem]) -> set[str]:
    """Ids of the problems that ask what one that is tested on, or a sibling of it, asks, or nearly."""
    variants, keys = [variant for problem in asked for variant in problem.variants], keys_of(*tested)
    same = {variant.problem_id for variant in variants if not keys.isdisjoint(keys_of(variant))}
    return same.union(near_duplicates(variants, tested))
