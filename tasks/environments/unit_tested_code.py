"""Environment `code`: the policy writes a Python function, hidden unit tests in the sandbox check it."""

from collections.abc import Sequence

from tasks.environments.direct import Direct
from tasks.programs.code_blocks import code_of

_ASKED = (
    "Write the Python function that is described. Use the standard library only. Answer with the code of the whole "
    "function only, between ``` fences.\n\n"
)


class UnitTestedCode(Direct):
    """Python functions, checked by unit tests that neither the policy nor the search sees."""

    parts: Sequence[str] = (
        "def ", "(x):", "(x, y):", " return ", " + ", " - ", " * ", " // ", " % ", "assert ", " == ",
    )  # fmt: skip

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        """The question alone for a policy from scratch, else with instructions."""
        return f"{question}\n" if base == "scratch" else f"{_ASKED}{question}\n"

    def parse(self, text: str) -> str | None:
        """The code in a completion: a whole function, or the rest of one that the question begins."""
        return code_of(text) or None

    def text(self, completion: str) -> str:
        """The code."""
        return code_of(completion)

    def worked_example(self, code: str, question: str) -> str:  # noqa: ARG002
        """The code between fences."""
        return f"```python\n{code}```"

    def demonstration(self, code: str, question: str, malformed_seed: int | None = None) -> str:  # noqa: ARG002
        """The code itself."""
        return code
