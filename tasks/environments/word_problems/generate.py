"""Generator of word problems from fixed stories or the grammar of events, a function of params and seed only."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import get_args

from tasks.environments.word_problems.grammar import Composition, compositions, name_of, parts_of, tell
from tasks.environments.word_problems.problem_writer import Position, WordProblemParams, write_problem
from tasks.environments.word_problems.spread import HELD_OUT, cycle, spread
from tasks.environments.word_problems.template import Template, draw_quantities, templates
from tasks.params.sections import Problems
from tasks.records.problems import Novelty, Problem, Split
from tasks.seeds import derive_seed


def generate(sizes: Problems, params: WordProblemParams, seed: int, draw: str = "") -> dict[Split, list[Problem]]:
    """All splits, each problem with its siblings, from the grammar of events or from the fixed stories.

    No question, siblings included, occurs twice. Another `draw` gives other problems of the same kinds.
    Raises GraftError if the templates cannot give as many different questions.
    """
    if params.stories == "events":
        return generate_from_events(sizes, params, seed, draw)
    usable = [template for template in templates() if template.operations <= params.operations]
    unseen = params.unseen_template_share
    held_out = held_out_templates(usable, seed) if unseen > 0 else []
    seen = [template for template in usable if template not in held_out]
    used: set[str] = set()
    problems: dict[Split, list[Problem]] = {}
    for split, size in sizes.splits.items():
        marks = spread(unseen if split == "test" else 0.0, size)
        name = f"{split}{draw}"
        known, unknown = cycle(seen, size, seed, name, "seen"), cycle(held_out, size, seed, name, "unseen")
        problems[split] = []
        for index, new in enumerate(marks):
            template = unknown.pop() if new else known.pop()
            rng = random.Random(derive_seed(seed, "problems", name, index))
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


POOL = 240
"""Compositions of each number of operations that a run draws from, where there are as many."""

DRAWS, SENSIBLE = 150, 3
"""Draws of a composition's quantities, and how many of them at least must make a sensible story."""


def generate_from_events(
    sizes: Problems, params: WordProblemParams, seed: int, draw: str = ""
) -> dict[Split, list[Problem]]:
    """All splits, each problem with its siblings. Another `draw` gives other problems of the same kinds.

    Each number of operations up to `operations` is equally frequent. Of the unseen share of the test problems every
    other one is a new composition; the others are known compositions with a new choice of tellings or, where
    `phrasings` is 1, new compositions too. Every telling of a part occurs in a composition of train.
    """
    unseen, phrasings = params.unseen_template_share, params.phrasings
    pool = [draw_pool(count, seed) for count in range(1, params.operations + 1)]
    held_out = held_out_compositions(pool, seed) if unseen > 0 else set()
    known = [[composition for composition in group if composition not in held_out] for group in pool]
    new = [[composition for composition in group if composition in held_out] for group in pool]
    used: set[str] = set()
    problems: dict[Split, list[Problem]] = {}
    for split, size in sizes.splits.items():
        name = f"{split}{draw}"
        draws = {
            novelty: _cycle_lengths(new if novelty == "composition" else known, size, seed, name, novelty or "seen")
            for novelty in (None, *get_args(Novelty))
        }
        problems[split] = []
        for index, novelty in enumerate(_novelties(spread(unseen if split == "test" else 0.0, size), phrasings)):
            composition = draws[novelty].pop()
            rng = random.Random(derive_seed(seed, "problems", name, index))
            tellings = _draw_tellings(composition, phrasings, novelty, unseen > 0, seed, rng)
            position = Position(split, index, novelty is None, novelty)
            problems[split].append(write_problem(tell(composition, tellings), 0, position, sizes.siblings, rng, used))
    return problems


def draw_pool(operations: int, seed: int) -> list[Composition]:
    """POOL compositions of `operations` operations, or all if there are fewer; none that hardly ever makes sense."""
    everything = compositions(operations)
    rng = random.Random(derive_seed(seed, "problems", "compositions", operations))
    return list(itertools.islice(filter(makes_sense, rng.sample(everything, len(everything))), POOL))


@cache
def makes_sense(composition: Composition) -> bool:
    """Whether enough quantities make a sensible story.

    After two divisions and a percentage hardly any result is a whole number, and a problem needs many such stories.
    """
    template = tell(composition, [0] * len(parts_of(composition)))
    rng = random.Random(derive_seed("problems", "sensible", template.name))
    return sum(draw_quantities(template, 0, rng) is not None for _ in range(DRAWS)) >= SENSIBLE


def held_out_compositions(pool: list[list[Composition]], seed: int) -> set[Composition]:
    """A quarter of the compositions of each number of operations, or fewer: each part of theirs occurs in another."""
    left = Counter(part.name for group in pool for composition in group for part in composition)
    held_out: set[Composition] = set()
    for operations, group in enumerate(pool, 1):
        rng = random.Random(derive_seed(seed, "problems", "held out", operations))
        taken: set[Composition] = set()
        for composition in rng.sample(group, len(group)):
            if len(taken) < round(len(group) / HELD_OUT) and all(left[part.name] > 1 for part in composition):
                left.subtract(part.name for part in composition)
                taken.add(composition)
        held_out |= taken
    return held_out


def is_held_out(composition: Composition, tellings: list[int], phrasings: int, seed: int) -> bool:
    """Whether train does not tell a composition like this.

    `tellings` are ranks, 0 to `phrasings` − 1, of the opening, the events and the question. Held out is one remainder
    of their sum: one in `phrasings` choices, and each part has each of its tellings in choices that are not held out.
    """
    remainder = derive_seed(seed, "problems", "phrasings", name_of(composition)) % phrasings
    return phrasings > 1 and sum(tellings) % phrasings == remainder


def _draw_tellings(
    composition: Composition, phrasings: int, novelty: Novelty | None, hold_out: bool, seed: int, rng: random.Random
) -> list[int]:
    """A telling for each part: of a new phrasing a choice that is held out, else one that is not."""
    parts = parts_of(composition)
    while True:
        ranks = [rng.randrange(phrasings) for _ in parts]
        if not hold_out or is_held_out(composition, ranks, phrasings, seed) == (novelty == "phrasing"):
            break
    orders = [telling_order(part.name, len(part.tellings), seed) for part in parts]
    return [order[rank] for order, rank in zip(orders, ranks, strict=True)]


def telling_order(part: str, count: int, seed: int) -> list[int]:
    """The tellings of a part in the order in which a run uses them: `phrasings` of them from the first."""
    return random.Random(derive_seed(seed, "problems", "tellings", part)).sample(range(count), count)


def _novelties(marks: list[bool], phrasings: int) -> list[Novelty | None]:
    """The novelty of each problem of a split from the marks of unseen ones."""
    kinds: tuple[Novelty, ...] = ("composition", "phrasing") if phrasings > 1 else ("composition",)
    unseen = itertools.cycle(kinds)
    return [next(unseen) if mark else None for mark in marks]


def _cycle_lengths(groups: list[list[Composition]], size: int, seed: int, split: str, name: str) -> list[Composition]:
    """`size` compositions, of each number of operations in turn; taken from the end."""
    filled = [group for group in groups if group]
    cycles = [cycle(group, size, seed, split, f"{name} {number}") for number, group in enumerate(filled)]
    return [cycles[index % len(cycles)].pop() for index in range(size)][::-1] if cycles else []
