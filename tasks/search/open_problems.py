"""The train problems that are open in a round: simpler ones first, harder ones once these are solved.

Problems of one difficulty are a level: with `curriculum.order: operations` those of one number of operations, with
pass_rate those of one mean of the success rate's posterior (problem_posterior.py); one that was never searched has the
prior's, ½. The easiest level is open. The next one opens if more than `curriculum.threshold` of the samples of the open
problems were right, each in its last search, and if some of the last open level were searched at all. (Curriculum by
competence: Platanios et al. 2019, arXiv 1903.09848; here the competence is measured.)

All of it is a function of the outcomes of earlier rounds: a level whose predecessors are unlearnt closes again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tasks.errors import GraftError
from tasks.params.curriculum import Curriculum
from tasks.records import SearchOutcome
from tasks.search.problem_posterior import success_posterior


def open_problems(
    operations: Mapping[str, int | None], outcomes: Iterable[SearchOutcome], params: Curriculum, round: int
) -> list[str]:
    """The open ones among the problems, given with their operations, in their order; all if `order` is null.

    Raises GraftError where operations are asked for and unknown.
    """
    if params.order is None:
        return list(operations)
    known: dict[str, list[SearchOutcome]] = defaultdict(list)
    for outcome in outcomes:
        known[outcome.problem_id].append(outcome)
    levels: dict[float, list[str]] = defaultdict(list)
    for name, count in operations.items():
        levels[_difficulty(name, count, known[name], params, round)].append(name)
    opened, right, samples = set[str](), 0, 0
    for level in sorted(levels):
        opened.update(levels[level])
        last = [max(known[name], key=lambda outcome: outcome.round) for name in levels[level] if known[name]]
        right += sum(outcome.right for outcome in last)
        samples += sum(outcome.samples for outcome in last)
        if not last or right <= params.threshold * samples:
            break
    return [name for name in operations if name in opened]


def _difficulty(name: str, operations: int | None, known: list[SearchOutcome], params: Curriculum, round: int) -> float:
    if params.order == "pass_rate":
        return -success_posterior(known, params.discount, round).mean
    if operations is None:
        raise GraftError(
            f"curriculum.order: operations, but problem {name!r} does not say how many it takes; set it to pass_rate"
        )
    return operations
