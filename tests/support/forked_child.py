"""A child process of `spawn` as a fork of this process, which is spared the start of Python and the imports."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any


class ForkedChild:
    """A fork that calls `main` with the arguments, variables and pipes of a child of `spawn`.

    It has what `kill_tree` needs of a Popen. Where `main` raises or returns, the exit code is 1.
    """

    def __init__(self, main: Callable[[], None], *arguments: str, env: Mapping[str, str], **_: Any) -> None:
        read_input, write_input = os.pipe()
        read_output, write_output = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.close(write_input)
                nothing = os.open(os.devnull, os.O_WRONLY)
                for number, descriptor in enumerate((read_input, write_output, nothing)):
                    os.dup2(descriptor, number)
                os.close(write_output)  # the parent reads until no copy of it is open
                os.environ.update(env)
                sys.argv[1:] = arguments
                main()
            finally:
                os._exit(1)
        os.close(read_input)
        os.close(write_output)
        self.stdin, self.stdout = os.fdopen(write_input, "wb"), os.fdopen(read_output, "rb")
        self.returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            self.stdout.close()
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode
