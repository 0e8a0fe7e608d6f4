"""Variants of a question with the same answer: other wordings, and its paragraphs in other orders."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tasks.programs.operators.builtin import with_context
from tasks.seeds import derive_seed

TRIES = 8
"""Draws for each variant: a question with two paragraphs has two orders only."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a context; the answer does not need a distractor."""

    text: str
    is_distractor: bool = False


@dataclass(frozen=True)
class QuestionParts:
    """A question, the same in other words, and the paragraphs in front of it."""

    question: str
    paraphrases: Sequence[str] = ()
    paragraphs: Sequence[Paragraph] = ()

    @property
    def context(self) -> str:
        """All paragraphs, in their order; "" without any."""
        return joined(self.paragraphs)


def joined(paragraphs: Sequence[Paragraph]) -> str:
    """The paragraphs with a blank line between them."""
    return "\n\n".join(paragraph.text for paragraph in paragraphs)


def variants_of(parts: QuestionParts, count: int) -> list[str]:
    """Up to `count` other texts that ask the same, each after its context; none twice, fewer where no more differ.

    The wordings take turns, the question's own last. A context has every needed paragraph and half to all of the
    distractors, in random order. A function of the arguments only; a smaller `count` gives the first of them.
    """
    own = with_context(parts.context, parts.question)
    rng = Random(derive_seed("problems", "siblings", own))
    wordings = [*rng.sample(list(parts.paraphrases), len(parts.paraphrases)), parts.question]
    found = {own: None}
    for attempt in range(count * TRIES):
        if len(found) > count:
            break
        context = joined(_drawn(parts.paragraphs, rng))
        found.setdefault(with_context(context, wordings[attempt % len(wordings)]))
    return list(found)[1:]


def mixed(paragraphs: Sequence[Paragraph], question: str) -> list[Paragraph]:
    """The paragraphs in an order that depends on the question alone."""
    return Random(derive_seed("problems", "paragraphs", question)).sample(list(paragraphs), len(paragraphs))


def _drawn(paragraphs: Sequence[Paragraph], rng: Random) -> list[Paragraph]:
    needed = [paragraph for paragraph in paragraphs if not paragraph.is_distractor]
    distractors = [paragraph for paragraph in paragraphs if paragraph.is_distractor]
    kept = needed + rng.sample(distractors, rng.randint((len(distractors) + 1) // 2, len(distractors)))
    rng.shuffle(kept)
    return kept
