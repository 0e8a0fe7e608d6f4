"""Laws: the first signal ends a command by its own exit code, even where what it raised was dropped or replaced."""

import os
import pty
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, Signals

import pytest

from flows.process.exit_codes import exit_code
from flows.process.signals import ENDING, GRACE, SignalHandler, Terminated, defer_signals, handle_as_command
from tasks.errors import GraftError
from tests.support.tiers import nightly_but_first

CODE = Path(__file__).parents[3]

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
def handler() -> Iterator[SignalHandler]:
    """The handler of a command."""
    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    hook, command = sys.unraisablehook, SignalHandler.installed
    installed = SignalHandler()
    installed.install()
    yield installed
    sys.unraisablehook, SignalHandler.installed = hook, command
    for number, own in before.items():
        signal.signal(number, own)


RAISED = {SIGINT: KeyboardInterrupt, SIGTERM: Terminated, SIGHUP: Terminated}


def in_finaliser(number: Signals) -> None:
    Tidied(number)


def in_weak_reference(number: Signals) -> None:
    """As the import system has them, for its locks."""

    def call(_: object) -> None:
        os.kill(os.getpid(), number)
        for _ in range(1000):
            pass

    referent = SignalHandler()
    reference = weakref.ref(referent, call)
    del referent
    assert reference() is None


@pytest.mark.parametrize("number", RAISED)
@pytest.mark.parametrize("where", [in_finaliser, in_weak_reference])
def test_a_dropped_signal_is_sent_again(number: Signals, where: Callable[[Signals], None]) -> None:
    began = time.monotonic()
    with pytest.raises(RAISED[number]):  # noqa: PT012
        where(number)
        began = 0.0  # it went on here
        time.sleep(60)
    assert began == 0.0


@pytest.mark.parametrize("number", RAISED)
def test_a_flow_handles_signals_as_the_command_does(number: Signals, handler: SignalHandler) -> None:
    def of_prefect(*_: object) -> None:
        raise AssertionError

    signal.signal(SIGTERM, of_prefect)
    with pytest.raises(RAISED[number]), handle_as_command():  # noqa: PT012
        os.kill(os.getpid(), number)
        signal.pause()
    assert handler.number == number
    assert signal.getsignal(SIGTERM) is of_prefect


def test_ignored_signals_stay_ignored_and_nothing_ends_without_a_signal() -> None:
    signal.signal(SIGHUP, signal.SIG_IGN)  # as by nohup
    SignalHandler().install()
    with handle_as_command(), defer_signals():
        os.kill(os.getpid(), SIGHUP)
    assert signal.getsignal(SIGHUP) is signal.SIG_IGN


def test_a_deferred_signal_outlasts_an_error_of_the_block() -> None:
    with pytest.raises(KeyboardInterrupt), defer_signals():  # noqa: PT012
        os.kill(os.getpid(), SIGINT)
        raise ValueError("of the block")


def replaced(command: Callable[[], None]) -> Callable[[], None]:
    """`command` called by a library that turns what a signal raises into an error of its own, as pydantic does."""

    def call() -> None:
        try:
            command()
        except BaseException as error:
            raise RuntimeError("cannot serialise") from error

    return call


@pytest.mark.parametrize("number", RAISED)
@pytest.mark.parametrize("wrapped", [lambda command: command, replaced], ids=["raised", "replaced"])
def test_the_exit_code_is_the_signals(
    number: Signals, wrapped: Callable[..., Callable[[], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    for other in ENDING:
        signal.signal(other, signal.SIG_DFL)
    code = exit_code(wrapped(lambda: os.kill(os.getpid(), number)), debug=False)
    assert (code, capsys.readouterr()) == (128 + number, ("", ""))


def test_an_interruption_within_exec_has_its_exit_code_too() -> None:
    """Python remembers a plain KeyboardInterrupt there, and kills the process when it has ended."""
    code = (
        "import sys\nfrom flows.process.exit_codes import exit_code\n"
        "def command():\n    exec('import os, signal; os.kill(os.getpid(), signal.SIGINT)')\n"
        "sys.exit(exit_code(command, debug=False))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=CODE, check=False).returncode == 130


def test_what_could_not_be_put_back_is_told_after_a_signal(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        try:
            os.kill(os.getpid(), SIGINT)
        except KeyboardInterrupt:
            raise GraftError("interrupted; its outputs could not be put back") from None

    signal.signal(SIGINT, signal.default_int_handler)
    assert exit_code(command, debug=False) == 130
    assert capsys.readouterr().err == "graft: interrupted; its outputs could not be put back\n"


COMMAND = """
import os, signal, sys, time
from flows.process.exit_codes import exit_code
from flows.process.signals import open_standard_streams

def command():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("interrupted", file=sys.stderr, flush=True)
        open(sys.argv[1], "w").write("tidied")
        {ending}

open_standard_streams()
sys.exit(exit_code(command, debug=False))
"""


def command_of(file: Path, ending: str = "pass") -> list[str]:
    return [sys.executable, "-c", COMMAND.format(ending=ending), str(file)]


def test_a_closed_terminal_ends_a_command_by_its_signal(tmp_path: Path) -> None:
    """Its last words can no longer be written there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command_of(tmp_path / "file"),
        cwd=CODE,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # its terminal
    )
    os.close(theirs)
    assert b"ready" in os.read(ours, 100)
    os.close(ours)
    assert process.wait(30) == 128 + SIGHUP
    assert (tmp_path / "file").read_text() == "tidied"


@pytest.mark.parametrize("closed", nightly_but_first([[0, 1, 2], [0], [1], [2]]), ids=str)
def test_closed_streams_are_not_taken_by_files(tmp_path: Path, closed: list[int]) -> None:
    """`2>&-`: what is printed there goes nowhere."""
    file = tmp_path / "file"
    code = (
        "import sys\nfrom flows.process.signals import open_standard_streams\nopen_standard_streams()\n"
        "from flows.process.exit_codes import exit_code\nfrom tasks.errors import GraftError\n"
        f"stream = open({str(file)!r}, 'w')\nprint('told', flush=True)\nprint('told', file=sys.stderr, flush=True)\n"
        "def command():\n    raise GraftError('a thing; a remedy')\n"
        "sys.exit(exit_code(command, debug=False))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=CODE,
        preexec_fn=lambda: [os.close(descriptor) for descriptor in closed],
        check=False,
    )
    assert (done.returncode, file.read_text()) == (2, "")


@pytest.mark.slow
def test_a_signal_after_the_grace_ends_a_command_that_hangs(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command_of(tmp_path / "file", "time.sleep(60)"), cwd=CODE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(SIGINT)
    time.sleep(GRACE / 2)
    process.send_signal(SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(GRACE)
    process.send_signal(SIGTERM)
    assert process.wait(5) == 128 + SIGTERM
