"""Opening, event and question: the parts that a story of the grammar consists of; all of them are in `parts.yaml`."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from pydantic import ConfigDict, with_config

from tasks.environments.word_problems.stories.words import StoryItems, StoryQuantity, read_data


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, eq=False)
class Part:
    """One or two sentences with open quantities, phrased in several ways.

    `{who}` stands for the person that the quantity belongs to and `{next}` for another one. Quantities are `{x}` and
    `{y}`; any other is a distractor. `solution` gives the quantity after the part, from `q`, the one before it, and its
    own: an opening has no `q`, a question leaves it as it is.
    """

    name: str
    gives: str  # the kind of quantity after it
    solution: str
    tellings: tuple[str, ...]
    takes: str | None = None  # the kind of quantity that it continues; None: it opens a story
    quantities: dict[str, StoryQuantity] = field(default_factory=dict)
    items: StoryItems = ()
    hundredths: bool = False
    passes: bool = False  # from here on the quantity is that of `{next}`

    @property
    def operations(self) -> int:
        return sum(self.solution.count(symbol) for symbol in "+-*/")


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class Parts:
    """All parts; `questions` are the tellings of the part that ends a story, by the kind of its quantity."""

    openings: tuple[Part, ...]
    events: tuple[Part, ...]
    questions: dict[str, tuple[str, ...]]


@cache
def all_parts() -> Parts:
    return read_data(Path(__file__).with_name("parts.yaml"), Parts)


@cache
def question_of(kind: str) -> Part:
    """The part that asks for a quantity of a kind."""
    return Part(f"ask-{kind}", kind, "q", all_parts().questions[kind], takes=kind)
