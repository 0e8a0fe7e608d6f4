"""Processes that work for a benchmark."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor

from flows.process import settings


def pool_of(workers: int | None) -> ProcessPoolExecutor:
    """Fresh processes that compute as the stages do and end with this one, however it ends.

    An executor's own processes go on when it is killed.
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
