"""Generator of problems from templates, a function of the params and the seed only."""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tasks.environments.word_problems.events.generate_events import generate_from_events
from tasks.environments.word_problems.from_template import Position, write_problem
from tasks.environments.word_problems.spread import HELD_OUT, cycle, spread
from tasks.environments.word_problems.stories.template import Template, templates
from tasks.environments.word_problems.word_problems import WordProblemParams
from tasks.params.sections import Problems
from tasks.records.problems import Problem, Split
from tasks.seeds import derive_seed


def generate(sizes: Problems, params: WordProblemParams, seed: int) -> dict[Split, list[Problem]]:
    """All splits, each problem with its siblings, from the grammar of events or from the fixed stories.

    No question, siblings included, occurs twice.
    Raises GraftError if the templates cannot give as many different questions.
    """
    if params.stories == "events":
        return generate_from_events(sizes, params, seed)
    usable = [template for template in templates() if template.operations <= params.operations]
    unseen = params.unseen_template_share
    held_out = held_out_templates(usable, seed) if unseen > 0 else []
    seen = [template for template in usable if template not in held_out]
    used: set[str] = set()
    problems: dict[Split, list[Problem]] = {}
    for split, size in sizes.splits.items():
        marks = spread(unseen if split == "test" else 0.0, size)
        known, unknown = cycle(seen, size, seed, split, "seen"), cycle(held_out, size, seed, split, "unseen")
        problems[split] = []
        for index, new in enumerate(marks):
            template = unknown.pop() if new else known.pop()
            rng = random.Random(derive_seed(seed, "problems", split, index))
            phrasing = rng.choice(phrasings_of(template, params.phrasings, seed))
            position = Position(split, index, not new)
            problems[split].append(write_problem(template, phrasing, position, sizes.siblings, rng, used))
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
