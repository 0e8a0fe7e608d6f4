"""Environment `answer`: the policy writes its reasoning in one block and the answer in another.

<think>
12 * 4 = 48
</think>
<answer>
48
</answer>
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from tasks.environments.direct import Direct, Value
from tasks.environments.numerals import read_answer
from tasks.environments.protocol import Term
from tasks.environments.tags import answer_block, hard_format, mark

_ASKED = (
    "Solve the problem. Think first, step by step, between <think> and </think>. "
    "Then give nothing but the number between <answer> and </answer>.\n\nProblem: "
)

MALFORMED_VARIANTS: tuple[Callable[[str], str], ...] = (
    lambda text: text.replace("<think>\n", "").replace("</think>\n", ""),
    lambda text: text.replace("\n</think>", ""),
    lambda text: text.replace("\n</answer>", ""),
    lambda text: text.replace("<answer>\n", "").replace("\n</answer>", ""),
    lambda text: text[text.index("<answer>") :],
)
"""Malformed variants: without both or one of the think tags, one or both of the answer tags, or the thoughts."""


class TaggedAnswer(Direct):
    """The answer in tags; `strict`: tags count for the terms only with new lines around them."""

    parts: Sequence[str] = (
        "<think>\n", "\n</think>\n", "<answer>\n", "\n</answer>", " + ", " - ", " * ", " / ", " = ",
    )  # fmt: skip

    def __init__(self, strict: bool = False) -> None:
        self.terms: Mapping[str, Term] = {
            "hard_format": lambda _, text, __: hard_format(text, strict),
            "mark": lambda _, text, __: mark(text, strict),
        }

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        """The question alone for a policy from scratch, else with instructions on the format."""
        return f"{question}\n" if base == "scratch" else f"{_ASKED}{question}\n"

    def parse(self, text: str) -> Value | None:
        """The number in the answer block, None without such a block."""
        block = answer_block(text)
        return None if block is None else read_answer(block)

    def written(self, steps: Sequence[str], answer: str) -> str:
        """A text with full `hard_format` and `mark`, also with `strict`."""
        return "\n".join(["<think>", *steps, "</think>", "<answer>", answer, "</answer>"])

    def malform(self, text: str, rng: Random) -> str:
        """One of MALFORMED_VARIANTS."""
        return rng.choice(MALFORMED_VARIANTS)(text)
