"""Processes that work for a benchmark."""

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor


def pool_of(workers: int | None) -> ProcessPoolExecutor:
    """Fresh processes that end with this one, however it ends: an executor's own do not when it is killed."""
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
