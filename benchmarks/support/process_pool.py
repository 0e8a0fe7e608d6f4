"""Process pool of the benchmarks."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor

from flows.process import settings


def pool_of(workers: int | None) -> ProcessPoolExecutor:
    """Spawned processes with the settings of the stages, which end with this one, however it ends.

    An executor's own processes survive if it is killed.
    """
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)


def _begin() -> None:
    settings.set_environment()
    parent = multiprocessing.parent_process()
    assert parent

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
