"""Generator of problems from templates, a function of the params and the seed only."""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tasks.errors import GraftError
from tasks.params.sections import Problems
from tasks.problems.stories.all_stories import TEMPLATES
from tasks.problems.stories.words import NAMES, PLACES
from tasks.problems.template import Option, Template, draw_quantities
from tasks.records import Problem, Sibling, Split
from tasks.seeds import derive_seed

HELD_OUT = 4
"""One in HELD_OUT templates is held out from train and validation."""

TRIES = 20_000


@dataclass(frozen=True)
class _Story:
    """A question with its answer and its quantities as drawn."""

    question: str
    answer: int | float
    drawn: dict[str, Option]


def generate(params: Problems, seed: int) -> dict[Split, list[Problem]]:
    """All splits. No question, siblings included, occurs twice.

    Raises GraftError if the templates cannot give as many different questions.
    """
    # test first and dev last: more train or dev problems do not change the test problems
    sizes: dict[Split, int] = {
        "test": params.test,
        "validation": params.validation,
        "train": params.train,
        "dev": params.dev,
    }
    unseen, operations = params.unseen_template_share, params.operations
    return generate_splits(sizes, params.phrasings, params.siblings, unseen, seed, operations)


def generate_splits(
    sizes: dict[Split, int], phrasings: int, siblings: int, unseen: float, seed: int, operations: int
) -> dict[Split, list[Problem]]:
    """`sizes` problems of each split, in this order, each with `siblings` siblings; see `generate`.

    `operations`: of the longest solution; templates with more are not used.
    """
    templates = [template for template in TEMPLATES if template.operations <= operations]
    held_out = held_out_templates(templates, seed) if unseen > 0 else []
    seen = [template for template in templates if template not in held_out]
    used: set[str] = set()
    problems: dict[Split, list[Problem]] = {}
    for split, size in sizes.items():
        share = unseen if split == "test" else 0.0
        # the rounded running count spreads the share evenly over the split
        marks = [round((index + 1) * share) > round(index * share) for index in range(size)]
        known, unknown = _cycle(seen, size, seed, split, "seen"), _cycle(held_out, size, seed, split, "unseen")
        problems[split] = [
            _problem(unknown.pop() if new else known.pop(), not new, split, index, phrasings, siblings, seed, used)
            for index, new in enumerate(marks)
        ]
    return problems


def held_out_templates(templates: Sequence[Template], seed: int) -> list[Template]:
    """A random quarter of the templates of each number of operations.

    Each operator (+, -, *, /) of theirs also occurs in a template that is not held out: a policy can only carry over to
    new templates what it could learn from the others.
    """
    draws = (_draw_quarter(templates, seed, attempt) for attempt in itertools.count())
    return next(held_out for held_out, seen in draws if _operators(held_out) <= _operators(seen))


def _draw_quarter(templates: Sequence[Template], seed: int, attempt: int) -> tuple[list[Template], list[Template]]:
    """A quarter of the templates of each number of operations, and the other templates."""
    by_operations: dict[int, list[Template]] = defaultdict(list)
    for template in templates:
        by_operations[template.operations].append(template)
    quarter: list[Template] = []
    for operations, group in sorted(by_operations.items()):
        rng = random.Random(derive_seed(seed, "problems", "held out", operations, *([attempt] if attempt else [])))
        quarter += rng.sample(group, max(1, round(len(group) / HELD_OUT)))
    return quarter, [template for template in templates if template not in quarter]


def _operators(templates: Iterable[Template]) -> set[str]:
    return {operator for template in templates for operator in template.operators}


def phrasings_of(template: Template, count: int, seed: int) -> list[int]:
    """The phrasings used by a run, drawn by the seed, the same in every split."""
    rng = random.Random(derive_seed(seed, "problems", "phrasings", template.name))
    return rng.sample(range(len(template.phrasings)), min(count, len(template.phrasings)))


def _cycle(templates: list[Template], size: int, seed: int, split: str, name: str) -> list[Template]:
    """`size` templates in shuffled cycles, so that their counts differ by at most one."""
    order: list[Template] = []
    while templates and len(order) < size:
        rng = random.Random(derive_seed(seed, "problems", split, name, len(order)))
        order += rng.sample(templates, len(templates))
    return order[:size][::-1]


def _problem(
    template: Template,
    seen: bool,
    split: Split,
    index: int,
    phrasings: int,
    siblings: int,
    seed: int,
    used: set[str],
) -> Problem:
    rng = random.Random(derive_seed(seed, "problems", split, index))
    phrasing = rng.choice(phrasings_of(template, phrasings, seed))
    stories: list[_Story] = []
    for _ in range(1 + siblings):
        stories.append(_story(template, phrasing, cast_of(template, rng), rng, stories, used))
        used.add(stories[-1].question)
    return Problem(
        problem_id=f"{split}-{index:04d}-{template.name}",
        question=stories[0].question,
        answer=stories[0].answer,
        source="generated",
        template=template.name,
        seen=seen,
        operations=template.operations,
        siblings=[Sibling(question=story.question, answer=story.answer) for story in stories[1:]],
    )


def cast_of(template: Template, rng: random.Random) -> dict[str, str]:
    """Names, place and item of a story; siblings draw their own, as a workflow must not depend on them."""
    name, other = rng.sample(NAMES, 2)
    cast = {"name": name, "other": other, "place": rng.choice(PLACES)}
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
        found = draw_quantities(template, phrasing, rng)
        if found is None:
            continue
        drawn, exact = found
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
