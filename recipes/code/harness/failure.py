"""A failed test in words: the line of the tests, and the exception's. Standard library only."""

import re
import traceback

from recipes.code.harness.remote import CandidateDied, CandidateError

TESTS = "<tests>"
"""The file of compiled tests in tracebacks."""

# unittest has the traceback of a test in words: they are the message of its error
_IN_TEXT = re.compile(f'File "{TESTS}", line ([0-9]+)')
_LAST = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$", re.MULTILINE)
_LONGEST = 400  # characters; exceptions may have any


class FirstFailure:
    """Keeps the first failure of tests. `lines`: that of `text` and the exception's, "" where unknown."""

    def __init__(self, is_wanted: bool) -> None:
        self.text = ""  # of the tests that are run
        self.lines: tuple[str, str] | None = None
        self._is_wanted = is_wanted

    def keep(self, error: BaseException | None) -> None:
        """Keep it if it is the first."""
        if self._is_wanted and error and not self.lines:
            self.lines = _line_of_tests(error, self.text), _line_of_error(error)


def _line_of_tests(error: BaseException, text: str) -> str:
    numbers = [n for frame, n in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == TESTS]
    numbers += map(int, _IN_TEXT.findall(str(error)))
    lines = text.splitlines()
    return lines[numbers[0] - 1].strip()[:_LONGEST] if numbers and numbers[0] <= len(lines) else ""


def _line_of_error(error: BaseException) -> str:
    if isinstance(error, CandidateDied):
        return ""
    told = str(error)[: 100 * _LONGEST]
    name = type(error).__name__
    whole = told if isinstance(error, CandidateError) else f"{name}: {told}" if error.args else name
    last: str = [whole.partition("\n")[0], *_LAST.findall(whole)][-1]
    return last[:_LONGEST]
