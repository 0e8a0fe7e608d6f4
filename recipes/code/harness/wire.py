"""Wire format of unit tests between host, zygote, the tests and the program under test; the sandbox has its own.

Standard library only.
"""

TESTS = b"U"  # host → tests: JSON [prompt, setup, name of the function, texts, whether to tell of the first failure,
# after the verdicts: a line feed and JSON [line of the tests, exception]]
PROGRAM = b"P"  # host → tests → program under test: JSON [prompt, code, name of the function, setup]
CALL = b"C"  # tests → program under test, after a PROGRAM: JSON [name, arguments, keywords]
REPLY = b"R"  # program under test → tests: JSON ["ok", value] or ["error", exception], untrusted
AGAIN = b"A"  # zygote → host: the program must be tested again, in a process of its own
MEMORY = b"M"  # zygote → host: the program under test has used more memory than it may

SHARED, OWN = b"s", b"o"
"""Processes of a program under test: one of many programs that leave no state, or its own."""

READ = b"#"
"""The first byte of verdicts: the tests have been read."""

PASSED, FAILED, ABORTED, END, DEAD = b"P", b"F", b"X", b";", b"D"
"""Verdicts: of a test; of a text of tests that raised elsewhere, or ran to its end; of a program that has ended."""

PIPE = 2048
"""Most bytes of verdicts that are written before the zygote is asked to read them: a pipe holds at least 4096."""

MORE, FINISHED, USED_UP = b"+", b".", b"!"
"""Tests → zygote: there are verdicts to be read; the tests have ended; they have, and may have left some state."""


def parts_of_verdicts(written: bytes) -> tuple[bytes, bytes, bytes]:
    """What a process with tests has written: its head, the verdicts, and the first failure; b"" if there is none."""
    head, _, rest = written.partition(b"\n")
    verdicts, _, told = rest.partition(b"\n")
    return head, verdicts, told
