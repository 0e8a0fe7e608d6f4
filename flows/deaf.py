"""Threads and processes that leave the signals that end a run to the run itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIG_BLOCK, SIG_SETMASK, Signals, pthread_sigmask


@contextmanager
def deaf_to(*signals: Signals) -> Iterator[None]:
    """What begins in the block never hears these: Ctrl-C in a terminal reaches each process, and so does a service's
    stop. This thread hears them after the block; a blocked signal waits, and is inherited.
    """
    unblocked = pthread_sigmask(SIG_BLOCK, signals)
    try:
        yield
    finally:
        pthread_sigmask(SIG_SETMASK, unblocked)
