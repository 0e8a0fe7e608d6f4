"""Child process that reads and compares expressions, started by tasks/evaluators/expression.py.

Standard input holds a line of JSON for each comparison, [expected, given]; standard output the answer, true or false.
"""

import json
import os
import resource
import sys
from functools import partial
from queue import SimpleQueue
from typing import BinaryIO

from tasks.core.child_process import end_with_parent

MEMORY = 4 << 30
"""Address space of this process, in bytes."""


def main() -> None:
    """Answer with "ready" once the parser is loaded, then with a verdict for each line until there are no more."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints is an answer
    waiting: SimpleQueue[list[str]] = SimpleQueue()
    end_with_parent(partial(_listen, orders, waiting))
    from tasks.evaluators import expression_equality, expression_reader

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.set_int_max_str_digits(0)
    answers.write(b"ready\n")
    answers.flush()
    while True:
        try:
            verdict = expression_equality.are_equal(*map(expression_reader.read, waiting.get()))
        except (Exception, MemoryError):  # noqa: BLE001 (sympy raises anything for what it cannot compute)
            verdict = False
        answers.write(json.dumps(verdict).encode() + b"\n")
        answers.flush()


def _listen(orders: BinaryIO, waiting: "SimpleQueue[list[str]]") -> None:
    """Queue each order until there are no more."""
    for line in orders:
        waiting.put(json.loads(line))


if __name__ == "__main__":
    main()
