"""Exit codes of a command, and the one line on stderr that says what went wrong."""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from tasks.errors import GraftError, TransientError, one_line
from tasks.redaction import redacted

USER_ERROR, INTERNAL_ERROR, INTERRUPTED, SIGNALLED = 2, 1, 130, 128
TRANSIENT_ERROR = 75
"""EX_TEMPFAIL of sysexits.h; only a stage that runs alone exits with it."""


class InternalError(Exception):
    """A bug in Graft that a child process reported in one line."""


class Terminated(BaseException):
    """SIGTERM (`kill`, a service that stops) or SIGHUP (a closed terminal)."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def exit_code(command: Callable[[], None], debug: bool, transient: int = USER_ERROR) -> int:
    """Run `command` and return the exit code: 0, 2 for an error that the user can fix, 1 for a bug in Graft.

    130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, all raised as exceptions so that `command` cleans up.
    `transient`: the code of a TransientError. The traceback is shown only with `debug`.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP; keep that
            signal.signal(number, _raise_terminated)
    try:
        command()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated as error:
        return SIGNALLED + error.number
    except Exception as error:  # noqa: BLE001 (the outermost handler: printed, not swallowed)
        if debug:
            print(redacted(traceback.format_exc()), file=sys.stderr, end="")
        line, code = line_and_code(error)
        print(f"graft: {one_line(redacted(line))}", file=sys.stderr)
        return transient if isinstance(error, TransientError) else code
    return 0


def _raise_terminated(number: int, _: object) -> NoReturn:
    raise Terminated(number)


def failure_line(error: Exception) -> str:
    """The line of a run that failed, in Prefect and the history."""
    return one_line(redacted(f"failed: {line_and_code(error)[0]}"))


def line_and_code(error: Exception) -> tuple[str, int]:
    """The line for the user and the exit code."""
    if isinstance(error, GraftError):
        return str(error), USER_ERROR
    if isinstance(error, InternalError):
        return str(error), INTERNAL_ERROR
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{error.filename or os.getcwd()}: the disk is full; free some space and run again, nothing was lost",
            USER_ERROR,
        )
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename}: not writable ({error.strerror}); fix its permissions", USER_ERROR
    return f"a fault in Graft, {type(error).__name__}: {error}; run it again with --debug to see where", INTERNAL_ERROR
