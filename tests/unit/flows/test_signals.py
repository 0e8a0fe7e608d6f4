"""Law: a signal that ends a run ends it, even where what it raised was dropped."""

import os
import signal
from collections.abc import Callable, Iterator
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from flows.process.exit_codes import Terminated, _raise_terminated
from flows.process.signals import reraise_lost_signals

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it is what is tested


class Tidied:
    """An object that receives a signal while Python finalises it."""

    def __init__(self, number: Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        for _ in range(1000):  # Python handles a signal between two steps of its own
            pass


@pytest.fixture(autouse=True)
def ending() -> Iterator[Callable[..., object]]:
    """The handlers of a command."""
    before = {number: signal.signal(number, _raise_terminated) for number in (SIGTERM, SIGHUP)}
    yield _raise_terminated
    for number, handler in before.items():
        signal.signal(number, handler)


RAISED = {SIGINT: KeyboardInterrupt, SIGTERM: Terminated, SIGHUP: Terminated}


@pytest.mark.parametrize("number", RAISED)
def test_a_dropped_signal_is_raised_at_the_next_piece_of_work(number: Signals) -> None:
    done = []

    def work() -> None:
        with reraise_lost_signals() as end_if_asked:
            for piece in range(3):
                end_if_asked()
                if piece == 1:
                    Tidied(number)  # dropped there
                done.append(piece)

    with pytest.raises(RAISED[number]):
        work()
    assert done == [0, 1]


@pytest.mark.parametrize("number", RAISED)
def test_a_signal_that_is_not_dropped_ends_the_work_at_once(number: Signals) -> None:
    before = signal.getsignal(number)

    def work() -> None:
        with reraise_lost_signals():
            os.kill(os.getpid(), number)
            signal.pause()

    with pytest.raises(RAISED[number]):
        work()
    assert signal.getsignal(number) is before


def test_ignored_signals_stay_ignored_and_nothing_ends_without_a_signal() -> None:
    with reraise_lost_signals() as end_if_asked:
        end_if_asked()
    signal.signal(SIGHUP, signal.SIG_IGN)  # as by nohup
    with reraise_lost_signals() as end_if_asked:
        os.kill(os.getpid(), SIGHUP)
        end_if_asked()
    assert signal.getsignal(SIGHUP) is signal.SIG_IGN
