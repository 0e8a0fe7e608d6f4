"""Process pool of the benchmarks."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

from flows.process import settings
from tasks.core.child_process import end_with_parent

Job = TypeVar("Job")
Result = TypeVar("Result")


def pool_of(workers: int | None) -> ProcessPoolExecutor:
    """Spawned processes with the settings of the stages, which end with this one, however it ends.

    An executor's own processes survive if it is killed.
    """
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)


def results_of(
    pool: ProcessPoolExecutor, work: Callable[[Job], Result], jobs: Sequence[Job]
) -> Iterator[tuple[Job, Result]]:
    """Each job with its result, as it comes; of a command that is ended, only the jobs in progress are waited for."""
    running = {pool.submit(work, job): job for job in jobs}
    try:
        for ended in as_completed(running):
            yield running[ended], ended.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    settings.set_environment()
    parent = multiprocessing.parent_process()
    assert parent
    end_with_parent(parent.join)
