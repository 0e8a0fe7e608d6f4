"""Environment `answer`: the policy writes its reasoning in one block and the answer in another.

<think>
12 * 4 = 48
</think>
<answer>
48
</answer>
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from pydantic import Field

from tasks.environments.arithmetic_statements import right_share
from tasks.environments.protocol import Solved, Term
from tasks.environments.tags import answer_block, hard_format, mark, thoughts
from tasks.environments.word_problems.problem_writer import WordProblemParams
from tasks.environments.word_problems.worked_answers import WorkedAnswers
from tasks.evaluators.number import Value
from tasks.evaluators.numerals import read_answer
from tasks.evaluators.scores import wanted
from tasks.params.fields import Share
from tasks.records.problems import NUMBER, Problem
from tasks.seeds import SEED_BITS, derive_seed

_ASKED = (
    "Solve the problem. Think first, step by step, between <think> and </think>. "
    "Then give nothing but {wanted} between <answer> and </answer>.\n\nProblem: "
)

MALFORMED_VARIANTS: tuple[Callable[[str], str], ...] = (
    lambda text: text.replace("<think>\n", "").replace("</think>\n", ""),
    lambda text: text.replace("\n</think>", ""),
    lambda text: text.replace("\n</answer>", ""),
    lambda text: text.replace("<answer>\n", "").replace("\n</answer>", ""),
    lambda text: text[text.index("<answer>") :],
)
"""Malformed variants: without both or one of the think tags, one or both of the answer tags, or the thoughts."""


class TaggedAnswer(WorkedAnswers):
    """Reasoning and answer in tags."""

    class Params(WordProblemParams):
        strict: bool = Field(False, description="true: the terms want a new line on both sides of each tag")
        malformed_share: Share = Field(0.3, description="share of the demonstrations with a malformed layout, 0–1")

    params = Params()

    parts: Sequence[str] = (
        "<think>\n", "\n</think>\n", "<answer>\n", "\n</answer>", " + ", " - ", " * ", " / ", " = ",
    )  # fmt: skip

    weights: Mapping[str, float] = {"hard_format": 1.0, "mark": 1.0}  # the full form earns 0.5 + 4 · 0.125

    def __init__(self) -> None:
        self.terms: Mapping[str, Term] = {
            "hard_format": lambda _, text, __: hard_format(text, self.params.strict),
            "mark": lambda _, text, __: mark(text, self.params.strict),
            "steps": lambda _, text, __: right_share(thoughts(text)),
        }

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        """The question alone for a policy from scratch, else with instructions on the format."""
        return f"{question}\n" if base == "scratch" else f"{_ASKED.format(wanted='the number')}{question}\n"

    def prompt_for(self, problem: Problem, base: str, served: bool = False) -> str:
        """The same, with the kind of answer that the problem's evaluator wants."""
        if base == "scratch" or problem.evaluator == NUMBER:
            return self.prompt(problem.question, base, served)
        return f"{_ASKED.format(wanted=wanted(problem.evaluator))}{problem.question}\n"

    def parse(self, text: str) -> Value | None:
        """The number in the answer block, None without such a block."""
        block = answer_block(text)
        return None if block is None else read_answer(block)

    def parse_for(self, evaluator: str, text: str) -> Value | None:
        """The number in the answer block, or for other evaluators than `number` the block itself, unless empty."""
        return self.parse(text) if evaluator == NUMBER else answer_block(text) or None

    def written(self, steps: Sequence[str], answer: str) -> str:
        """A text with full `hard_format` and `mark`, also with `strict`."""
        return "\n".join(["<think>", *steps, "</think>", "<answer>", answer, "</answer>"])

    def demonstrations(self, solved: Sequence[Solved], seed: int) -> Iterator[tuple[str, str]]:
        """Worked solutions; `malformed_share` of them, chosen at random, are one of MALFORMED_VARIANTS."""
        for question, text in super().demonstrations(solved, seed):
            random = derive_seed(seed, "spoilt", question)
            is_malformed = random < self.params.malformed_share * 2**SEED_BITS
            yield question, Random(random).choice(MALFORMED_VARIANTS)(text) if is_malformed else text
