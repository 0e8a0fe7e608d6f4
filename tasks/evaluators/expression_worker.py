"""Child process that reads and compares expressions, started by tasks/evaluators/expression.py.

A message is a comparison, [expected, given], or one text, which may have a value; the answer is true or false.
"""

import resource
import sys

from tasks.core.child_process import ParentConnection

MEMORY = 4 << 30
"""Address space of this process, in bytes."""


def main() -> None:
    """Answer with "ready" once the parser is loaded, then with a verdict for each message until there are no more."""
    parent = ParentConnection()
    from tasks.evaluators import expression_equality, expression_reader

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.set_int_max_str_digits(0)
    parent.send("ready")
    while True:
        try:
            first, *others = map(expression_reader.read, parent.receive())
            verdict = (
                expression_equality.are_equal(first, *others)
                if others
                else not isinstance(first, expression_equality.PlainText)
            )
        except (Exception, MemoryError):  # noqa: BLE001 (sympy raises anything for what it cannot compute)
            verdict = False
        parent.send(verdict)


if __name__ == "__main__":
    main()
