"""The splits of problems from files: at random by the seed at first, and then for life.

A problem's rank is a hash of seed and id. A run without an earlier policy takes test, validation, train and dev in this
order of ranks. One that continues a policy leaves out of test and dev what the policy's lineage learnt from, and out of
train and validation what it was tested on (tasks/known_problems.py).
"""

from collections.abc import Sequence

from tasks.errors import GraftError
from tasks.known_problems import NOTHING, KnownProblems, unknown
from tasks.params.sections import Problems
from tasks.records import Problem, Split
from tasks.seeds import derive_seed

TRUSTED = "trusted"
"""A column of files that says which lines' answers were checked."""


def split_problems(
    name: str, problems: Sequence[Problem], params: Problems, seed: int, known: KnownProblems = NOTHING
) -> dict[Split, list[Problem]]:
    """Assign the problems to splits, independent of the order of the lines; the rest is unused.

    More train or dev problems do not change test and validation. Where lines have the column TRUSTED, validation is of
    those alone in which it is true. `known`: by the policy that the run continues. Raises GraftError if there are too
    few problems for a split.
    """
    _check_count(name, problems, params)
    ranked = sorted(problems, key=lambda problem: derive_seed(seed, "problems", problem.problem_id))
    learnable, testable = unknown(ranked, known.tested), unknown(ranked, known.learnt)
    validation = list[Problem]()
    trusts = any(TRUSTED in problem.fields for problem in problems)
    if trusts:
        validation = [each for each in learnable if each.fields.get(TRUSTED) is True][: params.validation]
        if len(validation) < params.validation:
            raise GraftError(
                f"{name}: {TRUSTED} is true in {len(validation)} lines, but problems.validation asks for "
                f"{params.validation} of them; lower it, or check more lines"
            )
        learnable, testable = _without(learnable, validation), _without(testable, validation)
    learnt = params.train + (0 if trusts else params.validation)

    # What may be in either takes part by its rank, but only as far as the other split still gets its number.
    either = _among(testable, learnable)
    test = _among(ranked, _without(testable, either), either[: max(0, len(learnable) - learnt - params.dev)])
    test = test[: params.test]
    _check_size(name, "test", len(test), params.test, "learnt from")
    learnable = _without(learnable, test)
    fresh = _among(testable, learnable)
    chosen = _among(ranked, _without(learnable, fresh), fresh[: max(0, len(fresh) - params.dev)])[:learnt]
    block = "train" if trusts else "validation + train"
    _check_size(name, block, len(chosen), learnt, "was tested on")
    dev = _without(fresh, chosen)[: params.dev]
    _check_size(name, "dev", len(dev), params.dev, "learnt from or was tested on")
    validation, train = (validation, chosen) if trusts else (chosen[: params.validation], chosen[params.validation :])
    return {"dev": dev, "validation": validation, "test": test, "train": train}


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


def _among(problems: Sequence[Problem], *groups: Sequence[Problem]) -> list[Problem]:
    """Those of the problems that are in one of the groups."""
    ids = {problem.problem_id for group in groups for problem in group}
    return [problem for problem in problems if problem.problem_id in ids]


def _without(problems: Sequence[Problem], others: Sequence[Problem]) -> list[Problem]:
    ids = {problem.problem_id for problem in others}
    return [problem for problem in problems if problem.problem_id not in ids]
