"""What a command answers when something went wrong: one line on stderr and an exit code."""

import errno
import sys
import traceback
from collections.abc import Callable

from tasks.errors import GraftError

MENDABLE, FAULT, INTERRUPTED = 2, 1, 130


def exit_code(command: Callable[[], None], debug: bool) -> int:
    """Run `command`: 0, 2 where the user can mend what is wrong, 1 for a fault of Graft, 130 after Ctrl-C.

    The traceback is shown only with `debug`.
    """
    try:
        command()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (the last stop: told, not swallowed)
        if debug:
            traceback.print_exc()
        line, code = answer(error)
        print(f"graft: {line}", file=sys.stderr)
        return code
    return 0


def answer(error: Exception) -> tuple[str, int]:
    """The line and the exit code."""
    if isinstance(error, GraftError):
        return str(error), MENDABLE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.filename or 'run'}: the disk is full; free some space and run again, nothing was lost", MENDABLE
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error.filename}: not writable ({error.strerror}); mend its permissions", MENDABLE
    return f"a fault in Graft, {type(error).__name__}: {error}; run it again with --debug to see where", FAULT
