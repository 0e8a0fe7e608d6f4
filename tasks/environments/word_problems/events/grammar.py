"""Compositions of the grammar: an opening, events that continue it, a question."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from tasks.environments.word_problems.events.story_part import Part, all_parts, question_of
from tasks.environments.word_problems.stories.quantity import Quantity
from tasks.environments.word_problems.stories.template import Template

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
        own = {name: f"{name}{place}" for name in part.quantities}
        text = part.tellings[telling].replace("{who}", who).replace("{next}", following)
        for name, numbered in own.items():
            text = text.replace(f"{{{name}}}", f"{{{numbered}}}")
        sentences.append(text)
        solution = _substitute(part.solution, own | {"q": f"({solution})"})
        quantities |= {own[name]: quantity for name, quantity in part.quantities.items()}
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
