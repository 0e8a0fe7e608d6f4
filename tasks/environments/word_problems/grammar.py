"""Grammar of events: stories of an opening, events that continue it, and a question, all in `parts.yaml`."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from pydantic import ConfigDict, with_config

from tasks.environments.word_problems.quantities import Quantity, StoryItems, StoryQuantity, read_data
from tasks.environments.word_problems.template import Template


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


Composition = tuple[Part, ...]
"""An opening and its events, without the question."""


@lru_cache
def compositions(operations: int) -> tuple[Composition, ...]:
    """All compositions of exactly `operations` operations.

    No event occurs twice in one, and the quantity passes to another person once at most.
    """
    return tuple(
        composition
        for opening in all_parts().openings
        for composition in _continued((opening,), operations - opening.operations)
    )


def _continued(story: Composition, left: int) -> Iterator[Composition]:
    """The story with events of `left` operations in all."""
    if left == 0:
        yield story
    passed = any(part.passes for part in story)
    for event in all_parts().events:
        fits = event.takes == story[-1].gives and event.operations <= left
        if fits and event not in story and not (passed and event.passes):
            yield from _continued((*story, event), left - event.operations)


def name_of(composition: Composition) -> str:
    """The names of its parts in order: `owns-gain-share`."""
    return "-".join(part.name for part in composition)


def parts_of(composition: Composition) -> Composition:
    """Its opening, its events and its question."""
    return (*composition, question_of(composition[-1].gives))


def tell(composition: Composition, tellings: Sequence[int]) -> Template:
    """The template of a composition with telling `tellings[i]` of part i, the question's being the last."""
    people = itertools.cycle(("{name}", "{other}"))
    who, following = next(people), next(people)
    sentences: list[str] = []
    solution = ""
    quantities: dict[str, Quantity] = {}
    for place, (part, telling) in enumerate(zip(parts_of(composition), tellings, strict=True)):
        names = {name: f"{name}{place}" for name in part.quantities}
        text = part.tellings[telling].replace("{who}", who).replace("{next}", following)
        for name, numbered in names.items():
            text = text.replace(f"{{{name}}}", f"{{{numbered}}}")
        sentences.append(text)
        solution = _substitute(part.solution, names | {"q": f"({solution})"})
        quantities |= {names[name]: quantity for name, quantity in part.quantities.items()}
        if part.passes:
            who, following = following, who
    return Template(
        name_of(composition),
        solution,
        (" ".join(sentences),),
        quantities,
        composition[0].items,
        any(part.hundredths for part in composition),
    )


def _substitute(solution: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[a-z]+", lambda match: names[match[0]], solution)
