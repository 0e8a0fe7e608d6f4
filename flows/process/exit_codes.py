"""Exit codes of a command, and the one line on stderr that says what went wrong."""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from signal import SIGINT

from flows.process.signals import SIGNALLED, SignalHandler
from tasks.core.out_of_memory import is_out_of_memory, memory_line
from tasks.errors import GraftError, TransientError, one_line
from tasks.redaction import redacted

USER_ERROR, INTERNAL_ERROR = 2, 1
TRANSIENT_ERROR = 75
"""EX_TEMPFAIL of sysexits.h; only a stage that runs alone exits with it."""


class InternalError(Exception):
    """A bug in Graft that a child process reported in one line."""


def exit_code(command: Callable[[], None], debug: bool, transient: int = USER_ERROR) -> int:
    """Run `command` and return the exit code: 0, 2 for an error that the user can fix, 1 for a bug in Graft.

    130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, all raised as exceptions so that `command` cleans up.
    `transient`: the code of a TransientError. The traceback is shown only with `debug`.
    """
    signals = SignalHandler()
    signals.install()
    try:
        command()
    except SystemExit:  # of the command line's parser
        raise
    except BaseException as error:
        number = SIGINT if isinstance(error, KeyboardInterrupt) else signals.number
        if debug:
            print(redacted(traceback.format_exc()), file=sys.stderr, end="")
        if number is not None and not isinstance(error, GraftError):  # libraries turn what a signal raises into errors
            return SIGNALLED + number
        if not isinstance(error, Exception):
            raise
        line, code = line_and_code(error)
        if is_out_of_memory(error):
            sys.unraisablehook = lambda _: None  # exit handlers of libraries lack memory, too
        print(f"graft: {one_line(redacted(line))}", file=sys.stderr)
        if number is not None:
            return SIGNALLED + number
        return transient if isinstance(error, TransientError) else code
    finally:
        signals.command_is_over()
    return 0


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
        place = error.filename or os.getcwd()
        return f"{place}: the disk is full; free some space and run again, nothing was lost", USER_ERROR
    if is_out_of_memory(error):
        return memory_line(error), USER_ERROR
    if isinstance(error, OSError) and error.errno == errno.ENOLCK:  # a network share without its lock daemon
        place = error.filename or os.getcwd()
        return (
            f"{place}: its file system gives no locks ({error.strerror}); put the project on a local disk, "
            "or mount the share with locks"
        ), USER_ERROR
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename}: not writable ({error.strerror}); fix its permissions", USER_ERROR
    return f"a fault in Graft, {type(error).__name__}: {error}; run it again with --debug to see where", INTERNAL_ERROR
