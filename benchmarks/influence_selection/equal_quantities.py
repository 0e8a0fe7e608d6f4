"""Problems whose answer some wrong workflows also give, for the condition `answer_only` of `benchmarks.selection`.

The generator never draws equal quantities, so that a workflow that uses the wrong one is wrong. Here as many quantities
as possible are equal; only the siblings separate such a workflow from a right one.
"""

import random
from functools import cache

from tasks.environments.word_problems.generate import phrasings_of, telling_order
from tasks.environments.word_problems.grammar import Composition, compositions, name_of, parts_of, tell
from tasks.environments.word_problems.problem_writer import cast_of, phrase_question, plain_number
from tasks.environments.word_problems.quantities import Option
from tasks.environments.word_problems.template import Template, answer_of, templates
from tasks.records.problems import Problem, Sibling
from tasks.seeds import derive_seed

TRIES = 2000


def with_equal_quantities(problem: Problem, phrasings: int, seed: int) -> Problem | None:
    """A generated problem with equal quantities, itself as a sibling; None if no two can be equal."""
    dice = random.Random(derive_seed(seed, "coincident", problem.problem_id))
    template, phrasing = _template_of(problem, phrasings, seed, dice)
    tried = [one for one in (_drawn(template, phrasing, dice) for _ in range(TRIES)) if one]
    if not tried:
        return None
    drawn = min(tried, key=distinct)
    answer = answer_of(template, {name: value for name, (_, value) in drawn.items()})
    assert answer is not None
    question = phrase_question(template, phrasing, cast_of(template, dice), drawn)
    own = Sibling(question=problem.question, answer=problem.answer)
    changed = {"question": question, "answer": plain_number(answer), "siblings": [own, *problem.siblings]}
    return problem.model_copy(update=changed)


def _template_of(problem: Problem, phrasings: int, seed: int, dice: random.Random) -> tuple[Template, int]:
    """The template that the problem was generated from, with one of the phrasings of the run."""
    for template in templates():
        if template.name == problem.template:
            return template, dice.choice(phrasings_of(template, phrasings, seed))
    composition = _compositions(problem.operations or 1)[problem.template or ""]
    orders = [telling_order(part.name, len(part.tellings), seed) for part in parts_of(composition)]
    return tell(composition, [order[dice.randrange(phrasings)] for order in orders]), 0


@cache
def _compositions(operations: int) -> dict[str, Composition]:
    """Those of this number of operations, by name."""
    return {name_of(composition): composition for composition in compositions(operations)}


def _drawn(template: Template, phrasing: int, dice: random.Random) -> dict[str, Option] | None:
    """One draw of quantities; None if no two are equal or they make no sensible story."""
    drawn = {name: dice.choice(template.quantities[name].options) for name in dict.fromkeys(template.order(phrasing))}
    if distinct(drawn) == len(drawn):
        return None
    return drawn if answer_of(template, {name: value for name, (_, value) in drawn.items()}) is not None else None


def distinct(drawn: dict[str, Option]) -> int:
    """Number of different quantities."""
    return len({value for _, value in drawn.values()})
