"""Exceptions whose message is for the user.

    Exception
    ├── GraftError                  the user can fix it; exit code 2
    │   └── TransientError          may pass by itself: the stage is retried; 75 for a single stage
    │       └── WorkspaceLockedError    another process works in this folder (flows.process.workspace_lock)
    └── InternalError               a bug in Graft, raised in a child process (flows.process.exit_codes); exit code 1
    BaseException
    └── Terminated                  SIGTERM or SIGHUP (flows.process.signals); exit code 128 + signal

`HostClosed` and `ZygoteDied` are internal to the sandbox (tasks.programs.sandbox).
"""

from tasks.redaction import redacted

LONGEST = 2000
"""Characters of a message; of a longer one only the beginning and the end are shown."""


class GraftError(Exception):
    """An error in the input or the environment, not in Graft.

    The message is one line: the thing (file, line, field, value), then the remedy. The command line prints it without
    a traceback and exits with 2. Secrets are removed here: messages of libraries often contain a URL with its password.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(redacted(message)))


class TransientError(GraftError):
    """An error that may pass by itself: no answer from a server or hub, a lock held by another process.

    A run retries the stage after a delay (`machine.schedule.retries`); no other error is retried.
    """


def one_line(text: str) -> str:
    """`text` on one line, control characters escaped: file contents can neither break a line nor control a terminal."""
    plain = "".join(c if c.isprintable() else " " if c.isspace() else repr(c)[1:-1] for c in text)
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 500]} … {plain[-500:]}"
