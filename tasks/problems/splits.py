"""The splits of problems from files: at random by the seed at first, and then for life.

A problem's rank is a hash of seed and id. A run without an earlier policy takes test, validation, train and dev in this
order of ranks. One that continues a policy leaves out of test and dev what the policy's lineage learnt from, and out of
train and validation what it was tested on (tasks/known_problems.py).
"""

from collections.abc import Collection, Iterable, Sequence

from tasks.errors import GraftError
from tasks.known_problems import NOTHING, KnownProblems, unknown
from tasks.params.sections import Problems
from tasks.records.problems import Problem, Split
from tasks.seeds import derive_seed

TRUSTED = "trusted"
"""A column of files that says which lines' answers were checked."""


def split_problems(
    name: str, problems: Sequence[Problem], params: Problems, seed: int, known: KnownProblems = NOTHING
) -> dict[Split, list[Problem]]:
    """Assign the problems to splits, independent of the order of the lines.

    Of what is left up to `problems.confirm` are set aside, from the end of the ranks; the rest is unused.

    More train or dev problems do not change test and validation. Where lines have the column TRUSTED, validation is of
    those alone in which it is true. `known`: by the policy that the run continues. Raises GraftError if there are too
    few problems for a split.
    """
    _check_count(name, problems, params)
    ranked = sorted(problems, key=lambda problem: derive_seed(seed, "problems", problem.problem_id))
    learnable, testable = (ids_of(unknown(ranked, keys)) for keys in (known.tested, known.learnt))
    validation, learnt = list[Problem](), params.validation + params.train
    trusted = {problem.problem_id for problem in problems if problem.fields.get(TRUSTED) is True}
    if trusts := any(TRUSTED in problem.fields for problem in problems):
        validation, learnt = _first(ranked, params.validation, learnable & trusted), params.train
        if len(validation) < params.validation:
            raise GraftError(
                f"{name}: {TRUSTED} is true in {len(validation)} lines, but problems.validation asks for "
                f"{params.validation} of them; lower it, or check more lines"
            )
        learnable, testable = learnable - ids_of(validation), testable - ids_of(validation)

    # What may be in either of two splits is taken by its rank, but only as far as the other one still gets its number.
    test = _first(ranked, params.test, testable, learnable, learnt + params.dev)
    _check_size(name, "test", len(test), params.test, "learnt from")
    learnable, testable = learnable - ids_of(test), testable - ids_of(test)
    block = _first(ranked, learnt, learnable, testable & learnable, params.dev)
    _check_size(name, "train" if trusts else "validation + train", len(block), learnt, "was tested on")
    dev = _first(ranked, params.dev, (testable & learnable) - ids_of(block))
    _check_size(name, "dev", len(dev), params.dev, "learnt from or was tested on")
    validation, train = (validation, block) if trusts else (block[: params.validation], block[params.validation :])
    left = (testable & learnable) - ids_of(block) - ids_of(dev)
    confirm = _first(ranked[::-1], params.confirm, left)
    return {"dev": dev, "validation": validation, "test": test, "train": train, "confirm": confirm}


def ids_of(problems: Iterable[Problem]) -> set[str]:
    """The ids of the problems."""
    return {problem.problem_id for problem in problems}


def _first(
    ranked: Sequence[Problem], size: int, ids: set[str], wanted: Collection[str] = (), needed: int = 0
) -> list[Problem]:
    """The first problems with these ids that leave `needed` of the `wanted` ones, up to `size`."""
    shared = [problem for problem in ranked if problem.problem_id in wanted and problem.problem_id in ids]
    left = ids - ids_of(shared[max(0, len(wanted) - needed) :])
    return [problem for problem in ranked if problem.problem_id in left][:size]


def _check_count(name: str, problems: Sequence[Problem], params: Problems) -> None:
    """Raise GraftError for fewer problems than all splits together ask for."""
    sizes = {split: size for split, size in params.splits.items() if size or split != "dev"}
    asked = sum(sizes.values())
    if len(problems) < asked:
        names, counts = " + ".join(reversed(sizes)), " + ".join(str(size) for size in reversed(sizes.values()))
        fewer = [(split, sizes[split] * len(problems) // asked) for split in reversed(sizes)]
        example = "".join(f" -S problems.{split}={size}" for split, size in fewer)
        raise GraftError(
            f"{name}: {len(problems)} problems, but problems.{names} ask for {asked} ({counts}); "
            f"add lines or ask for fewer{f':{example}' if all(size for _, size in fewer) else ''}"
        )


def _check_size(name: str, split: str, found: int, asked: int, other: str) -> None:
    """Raise GraftError for a split that gets too few; `other`: what happened to problems that may not be in it."""
    if found < asked:
        fewer = f"ask for {found}, " if found else ""
        raise GraftError(
            f"{name}: {found} problems for {split}, but problems.{split} asks for {asked}, and no others may be in it: "
            f"policy.base {other} them; add lines, {fewer}or begin anew with another policy.base"
        )
