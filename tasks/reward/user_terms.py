"""Terms of the reward by the user's functions (`rewards.own`)."""

from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GraftError
from tasks.params.sections import UserTerm
from tasks.records.programs import Result
from tasks.reward.term_process import TermProcess
from tasks.reward.weighted_sum import TermColumn, TermValue
from tasks.trajectories import Trajectory

SECONDS = 10.0
"""Time limit of one call of a function; after it there is no reward."""

TRIED = 32
"""Calls without a value after which a function is refused, whatever share may fail."""


def user_term_column(
    root: Path, term: UserTerm, trajectories: Sequence[Trajectory], total: int, limit: float, seconds: float
) -> list[TermColumn]:
    """Value of `term` for each completion [P, G], called once for each distinct completion of a problem.

    Raises GraftError if it cannot be loaded, as soon as more than `limit` (a share) of all `total` completions of the
    round failed, or it has no value for the first TRIED: a function that hangs on each of thousands would otherwise
    take hours.
    """
    calls = failed = values = 0
    columns: list[TermColumn] = []
    with TermProcess(root, term.term, seconds) as call:
        for trajectory in trajectories:
            cached: dict[tuple[str, tuple[Result, ...]], TermValue] = {}
            column = []
            for member in trajectory.members:
                text, results = member.code, tuple(member.results)
                if (text, results) not in cached:
                    cached[text, results] = call(trajectory.problem, text, results)
                    calls += 1
                measured = cached[text, results]
                column.append(measured)
                failed += measured.status != "ok"
                values += measured.status == "ok"
                if failed / total > limit or (not values and calls == TRIED):
                    told = f"more than {limit:.0%}" if failed / total > limit else "all that it was called for"
                    raise GraftError(
                        f"rewards.own: {term.name} ({term.term}) has failed on {failed} of {total} completions, {told};"
                        f" workflow {member.workflow_id} of problem {trajectory.problem_id}, for instance:"
                        f" {measured.error}; fix it"
                    )
            columns.append(column)
    return columns
