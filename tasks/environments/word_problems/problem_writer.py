"""Writing of word problems: their params, and a problem with siblings from a template."""

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from tasks.environments.word_problems.quantities import Option, shared_words
from tasks.environments.word_problems.template import Template, draw_quantities
from tasks.errors import GraftError
from tasks.params.fields import Share
from tasks.params.sections import Section
from tasks.records.problems import Novelty, Problem, Sibling, Split


class WordProblemParams(Section):
    """Which stories are written, and how far they are solved without a policy."""

    stories: Literal["events", "fixed"] = Field(
        "events", description="events: composed by a grammar of events | fixed: 48 of them"
    )
    operations: Annotated[int, Field(ge=1, le=4, strict=True)] = Field(
        2, description="longest solution in arithmetic operations, 1–4; fewer are easier"
    )
    phrasings: Annotated[int, Field(ge=1, le=3)] = Field(
        2, description="phrasings of each part of a story (fixed: of the story), 1–3; more are harder"
    )
    unseen_template_share: Share = Field(
        0.25, description="share of the test problems whose template is not in train, 0–1"
    )
    enumerated_operations: Annotated[int, Field(ge=1, le=5)] = Field(
        4, description="longest program that coldstart enumerates, 1–5; longer ones are left to the tree search"
    )


TRIES = 20_000


@dataclass(frozen=True)
class _Story:
    """A question with its answer and its quantities as drawn."""

    question: str
    answer: int | float
    drawn: dict[str, Option]


@dataclass(frozen=True)
class Position:
    """Where a problem stands: its split, its number there, and whether train has problems of its kind."""

    split: Split
    index: int
    seen: bool
    novelty: Novelty | None = None


def write_problem(
    template: Template, phrasing: int, position: Position, siblings: int, rng: random.Random, used: set[str]
) -> Problem:
    """A problem of a template and its siblings; their questions are new and are added to `used`.

    Raises GraftError if the template gives no further question.
    """
    stories: list[_Story] = []
    for _ in range(1 + siblings):
        stories.append(_story(template, phrasing, cast_of(template, rng), rng, stories, used))
        used.add(stories[-1].question)
    return Problem(
        problem_id=f"{position.split}-{position.index:04d}-{template.name}",
        question=stories[0].question,
        answer=stories[0].answer,
        source="generated",
        template=template.name,
        seen=position.seen,
        novelty=position.novelty,
        operations=template.operations,
        siblings=[Sibling(question=story.question, answer=story.answer) for story in stories[1:]],
    )


def cast_of(template: Template, rng: random.Random) -> dict[str, str]:
    """Names, place and item of a story; siblings draw their own, as a workflow must not depend on them."""
    shared = shared_words()
    name, other = rng.sample(shared.names, 2)
    cast = {"name": name, "other": other, "place": rng.choice(shared.places)}
    return cast | ({"item": rng.choice(template.items)} if template.items else {})


def phrase_question(template: Template, phrasing: int, cast: dict[str, str], drawn: dict[str, Option]) -> str:
    """The question with these quantities."""
    question = template.phrasings[phrasing].format(**cast, **{name: text for name, (text, _) in drawn.items()})
    return question[0].upper() + question[1:]


def _story(
    template: Template,
    phrasing: int,
    cast: dict[str, str],
    rng: random.Random,
    family: list[_Story],
    used: set[str],
) -> _Story:
    """A new question with another answer than its siblings and, compared with the first, other quantities."""
    for _ in range(TRIES):
        draw = draw_quantities(template, phrasing, rng)
        if draw is None:
            continue
        drawn, exact = draw
        story = _Story(phrase_question(template, phrasing, cast, drawn), plain_number(exact), drawn)
        if story.question not in used and _differs(template, story, family):
            return story
    raise GraftError(
        f"problems: template {template.name!r} gives no further question after {TRIES} tries; "
        "ask for fewer problems or siblings, or widen its quantities"
    )


def _differs(template: Template, story: _Story, family: list[_Story]) -> bool:
    if any(story.answer == sibling.answer for sibling in family):
        return False
    if not family:
        return True
    varying = [name for name in story.drawn if len({value for _, value in template.quantities[name].options}) > 1]
    return all(story.drawn[name][1] != family[0].drawn[name][1] for name in varying)


def plain_number(exact: Fraction) -> int | float:
    """An integral answer as int, any other (of at most two decimals) as float."""
    return exact.numerator if exact.denominator == 1 else float(exact)
