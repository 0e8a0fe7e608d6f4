"""What a command answers when something went wrong: one line on stderr and an exit code."""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from tasks.errors import GraftError, Passing, one_line
from tasks.redaction import redacted

MENDABLE, FAULT, INTERRUPTED, SIGNALLED = 2, 1, 130, 128
PASSING = 75
"""What a stage alone answers where another try may do; of sysexits.h."""


class Fault(Exception):
    """A fault of Graft in another process, in the line that this one told."""


class Terminated(BaseException):
    """Somebody asks this process to end: SIGTERM, as from `kill` or a service that is stopped, or a closed terminal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def exit_code(command: Callable[[], None], debug: bool, passing: int = MENDABLE) -> int:
    """Run `command`: 0, 2 where the user can mend what is wrong, 1 for a fault of Graft.

    130 after Ctrl-C, 143 after SIGTERM, 129 after a closed terminal: then, too, everything is left in order and no
    process behind. `passing`: the code where it may pass by itself. The traceback is shown only with `debug`.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # not where it is ignored, as nohup does
            signal.signal(number, _end)
    try:
        command()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated as told:
        return SIGNALLED + told.number
    except Exception as error:  # noqa: BLE001 (the last stop: told, not swallowed)
        if debug:
            print(redacted(traceback.format_exc()), file=sys.stderr, end="")
        line, code = answer(error)
        print(f"graft: {one_line(redacted(line))}", file=sys.stderr)
        return passing if isinstance(error, Passing) else code
    return 0


def _end(number: int, _: object) -> NoReturn:
    raise Terminated(number)


def answer(error: Exception) -> tuple[str, int]:
    """The line and the exit code."""
    if isinstance(error, GraftError):
        return str(error), MENDABLE
    if isinstance(error, Fault):
        return str(error), FAULT
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{error.filename or os.getcwd()}: the disk is full; free some space and run again, nothing was lost",
            MENDABLE,
        )
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename}: not writable ({error.strerror}); mend its permissions", MENDABLE
    return f"a fault in Graft, {type(error).__name__}: {error}; run it again with --debug to see where", FAULT
