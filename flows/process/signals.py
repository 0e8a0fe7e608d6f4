"""Signals that end a run: child processes are started with them blocked, and a lost one is raised again."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from signal import SIG_BLOCK, SIG_SETMASK, SIGHUP, SIGINT, SIGTERM, Signals, pthread_sigmask
from types import FrameType


@contextmanager
def block_signals(*signals: Signals) -> Iterator[None]:
    """Block `signals`: processes and threads started in the block inherit the mask and never receive them.

    Ctrl-C in a terminal and the stop of a service are sent to every process. Here they arrive after the block.
    """
    unblocked = pthread_sigmask(SIG_BLOCK, signals)
    try:
        yield
    finally:
        pthread_sigmask(SIG_SETMASK, unblocked)


@contextmanager
def reraise_lost_signals() -> Iterator[Callable[[], None]]:
    """A function to call between two pieces of work; it raises again what a signal raised and Python dropped.

    Python drops an exception that a signal handler raises inside `__del__`, and the work would continue.
    """
    received: list[Callable[[], object]] = []
    before = {number: signal.getsignal(number) for number in (SIGINT, SIGTERM, SIGHUP)}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}  # only the main thread may set handlers

    def handle(number: int, frame: FrameType | None) -> None:
        handler = handlers[Signals(number)]
        received.append(partial(handler, number, None))
        handler(number, frame)

    def raise_if_received() -> None:
        if received:
            received[-1]()

    for number in handlers:
        signal.signal(number, handle)
    try:
        yield raise_if_received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
