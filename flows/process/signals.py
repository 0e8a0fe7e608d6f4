"""The signals that end a run: who leaves them to it, and that it does hear them."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from signal import SIG_BLOCK, SIG_SETMASK, SIGHUP, SIGINT, SIGTERM, Signals, pthread_sigmask
from types import FrameType


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


@contextmanager
def sure_to_hear() -> Iterator[Callable[[], None]]:
    """What to call between two pieces of work: it ends the run where a signal should have done so and did not.

    What a signal raises while Python tidies an object up (`__del__`) is dropped there, and the work goes on.
    """
    heard: list[Callable[[], object]] = []
    before = {number: signal.getsignal(number) for number in (SIGINT, SIGTERM, SIGHUP)}
    ours = {number: handler for number, handler in before.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        ours = {}  # signals are the main thread's

    def listen(number: int, frame: FrameType | None) -> None:
        handler = ours[Signals(number)]
        heard.append(partial(handler, number, None))
        handler(number, frame)

    def end_if_asked() -> None:
        if heard:
            heard[-1]()

    for number in ours:
        signal.signal(number, listen)
    try:
        yield end_if_asked
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
