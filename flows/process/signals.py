"""Signals that end a command: the first one is raised as an exception, so that it cleans up.

    SIGINT     Ctrl-C                               Interrupted
    SIGTERM    `kill`, a service that stops         Terminated
    SIGHUP     a closed terminal                    Terminated

Further ones are ignored while it does, and end the process at once after GRACE seconds: it survives `kill -9` as well.
SIGPIPE, of an output whose reader is gone, does not end a run of a Prefect worker (`outlive_readers`).
"""

import atexit
import errno
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from signal import SIG_BLOCK, SIG_DFL, SIG_IGN, SIG_SETMASK, SIGHUP, SIGINT, SIGTERM, Signals, pthread_sigmask
from types import FrameType
from typing import ClassVar

ENDING = (SIGINT, SIGTERM, SIGHUP)

GRACE = 5.0
"""Seconds in which a command ends undisturbed after its first signal."""

DROP_DELAY = 0.05
"""Seconds after which a signal is sent again whose exception was dropped; `__del__` has returned by then."""

SIGNALLED = 128
"""Exit code of a command that was ended by a signal, less the signal's number."""

Handler = Callable[[int, FrameType | None], object]


class Terminated(BaseException):
    """SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interrupted(KeyboardInterrupt):
    """SIGINT. A plain KeyboardInterrupt that was raised in `exec`, as in the import of a dataclass, makes Python kill
    the process at its end, although it was caught."""


class SignalHandler:
    """Handler of the signals that end this command; `number` is the first one received."""

    installed: "ClassVar[SignalHandler | None]" = None

    def __init__(self) -> None:
        self.number: int | None = None
        self._undisturbed = 0.0

    def install(self) -> None:
        """Handle every signal that has its default, to the end of the process; nohup ignores SIGHUP, which stays so."""
        for number in ENDING:
            if signal.getsignal(number) in (SIG_DFL, signal.default_int_handler):
                signal.signal(number, self)
                atexit.register(signal.signal, number, SIG_IGN)  # Python gives it its default before it is gone
        sys.unraisablehook = self._send_again
        SignalHandler.installed = self

    def command_is_over(self) -> None:
        """From here on the process ends by itself."""
        self._undisturbed = self._undisturbed or time.monotonic() + GRACE

    def __call__(self, number: int, _: FrameType | None) -> None:
        if self._undisturbed:
            if time.monotonic() > self._undisturbed:
                os._exit(SIGNALLED + number)
            return
        self.number, self._undisturbed = number, time.monotonic() + GRACE
        if number == SIGHUP:
            _leave_closed_terminal()
        raise Interrupted if number == SIGINT else Terminated(number)

    def _send_again(self, dropped: "sys.UnraisableHookArgs") -> None:
        """Send the signal again whose exception Python dropped, as it does in `__del__` and in the callback of a weak
        reference (imports have them): the command would go on."""
        if self.number is None or not isinstance(dropped.exc_value, (Interrupted, Terminated)):
            sys.__unraisablehook__(dropped)
            return
        again = threading.Timer(DROP_DELAY, self._send, (self.number,))
        again.daemon = True
        again.start()

    def _send(self, number: int) -> None:
        self._undisturbed = 0.0
        os.kill(os.getpid(), number)


def _leave_closed_terminal() -> None:
    """Redirect stdout and stderr to /dev/null where writing to them would raise an error."""
    import termios

    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:  # of a file and a pipe it is ENOTTY
                _redirect(descriptor)


def open_standard_streams() -> None:
    """Open /dev/null in place of standard streams that are closed (`2>&-`): the next file opened would take their
    place, and what is printed would be written into it."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            _redirect(descriptor)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def _redirect(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)


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
def defer_signals() -> Iterator[None]:
    """Handle signals that arrive in the block after it, however many threads there are.

    A blocked signal (`block_signals`) is received by another thread, and Python calls its handler in this one.
    """
    received: list[int] = []
    try:
        with _handlers(lambda number, _: received.append(number)) as handlers:
            yield
    finally:
        for number in received:
            handlers[Signals(number)](number, None)


@contextmanager
def handle_as_command() -> Iterator[None]:
    """Handle signals in the block as the command does. A Prefect flow has its own handler of SIGTERM, which raises an
    error for each of six signals."""
    handler = SignalHandler.installed
    with _handlers(handler) if handler else nullcontext():
        yield


@contextmanager
def _handlers(handler: Handler) -> Iterator[dict[Signals, Handler]]:
    """Handle signals by `handler`; yields the handlers that they had before, which return after the block.

    Ignored signals stay ignored. In another thread than the main one, which no signal interrupts, nothing changes.
    """
    numbers = ENDING if threading.current_thread() is threading.main_thread() else ()
    handlers = {number: before for number in numbers if callable(before := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, handler)
    try:
        yield handlers
    finally:
        for number, before in handlers.items():
            signal.signal(number, before)


def outlive_readers() -> None:
    """Start a thread that does so for this process.

    Without it a run whose Prefect worker was killed ends, hours later, with SIGPIPE at the next line that it prints.
    Regular files and terminals are not affected, nor are processes that were started before.
    """
    threading.Thread(target=_watch, name="readers", daemon=True).start()


def _watch() -> None:
    poll, open_descriptors = select.poll(), {1, 2}
    for descriptor in open_descriptors:
        poll.register(descriptor, 0)  # POLLERR and POLLHUP, a pipe without a reader, are always reported
    while open_descriptors:
        for descriptor, _ in poll.poll():
            _redirect(descriptor)
            poll.unregister(descriptor)
            open_descriptors.discard(descriptor)
