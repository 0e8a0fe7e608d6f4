"""Child process that compares expressions with math-verify, started by tasks/evaluators/expression.py.

Standard input holds a line of JSON for each comparison, [expected, given]; standard output the answer, true or false.
"""

import json
import os
import resource
import sys
from functools import partial
from queue import SimpleQueue
from typing import Any, BinaryIO

from tasks.core.child_process import end_with_parent

MEMORY = 4 << 30
"""Address space of this process, in bytes."""


def main() -> None:
    """Answer with "ready" once math-verify is loaded, then with a verdict for each line until there are no more."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints is an answer
    waiting: SimpleQueue[list[str]] = SimpleQueue()
    end_with_parent(partial(_listen, orders, waiting))
    import math_verify

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.set_int_max_str_digits(0)
    answers.write(b"ready\n")
    answers.flush()
    while True:
        verdict = _verdict(math_verify, *waiting.get())
        answers.write(json.dumps(verdict).encode() + b"\n")
        answers.flush()


def _verdict(library: Any, expected: str, given: str) -> bool:
    """`verify` without its own time limits, which are signals; the parent has one."""
    try:
        parsed = [library.parse(f"${text}$", parsing_timeout=None) for text in (expected, given)]
        return bool(library.verify(*parsed, timeout_seconds=None))
    except (Exception, MemoryError):  # noqa: BLE001 (sympy raises anything for what it cannot compute)
        return False


def _listen(orders: BinaryIO, waiting: "SimpleQueue[list[str]]") -> None:
    """Queue each order until there are no more."""
    for line in orders:
        waiting.put(json.loads(line))


if __name__ == "__main__":
    main()
