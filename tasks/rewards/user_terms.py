"""Terms of the reward by the user's functions (`rewards.own`)."""

from collections.abc import Sequence
from pathlib import Path

from tasks.errors import GraftError
from tasks.params.sections import UserTerm
from tasks.records import Result, Trajectory
from tasks.rewards.builtin_terms import results_of
from tasks.rewards.term_process import TermProcess
from tasks.rewards.weighted_sum import TermColumn, TermValue


def user_term_column(
    root: Path, term: UserTerm, trajectories: Sequence[Trajectory], seconds: float, limit: float, total: int
) -> list[TermColumn]:
    """Value of `term` for each completion [P, G], called once for each distinct completion of a problem.

    Raises GraftError if it cannot be loaded, and as soon as more than `limit` (a share) of all `total` completions of
    the round failed: a function that hangs on each of thousands would otherwise take hours.
    """
    failed = 0
    columns: list[TermColumn] = []
    with TermProcess(root, term.term, seconds) as call:
        for trajectory in trajectories:
            cached: dict[tuple[str, tuple[Result, ...]], TermValue] = {}
            column = []
            for member, text in enumerate(trajectory.workflow_codes):
                results = tuple(results_of(trajectory, member))
                if (text, results) not in cached:
                    cached[text, results] = call(trajectory.problem, text, results)
                column.append(cached[text, results])
                failed += column[-1].status != "ok"
                if failed / total > limit:
                    raise GraftError(
                        f"rewards.own: {term.name} ({term.term}) has failed on {failed} of {total} completions, "
                        f"rewards.failed_limit is {limit:.0%}; workflow {trajectory.workflow_ids[member]} of problem "
                        f"{trajectory.problem_id}, for instance: {column[-1].error}; fix it{_slow(column[-1])}"
                    )
            columns.append(column)
    return columns


def _slow(measured: TermValue) -> str:
    return ", or raise rewards.seconds" if measured.status == "timeout" else ""
