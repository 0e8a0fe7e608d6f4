"""All templates of the generator.

Rules, each tested: a phrasing contains no number outside a quantity and no number word except those of
`template.WORDS`; a family has several templates, so that held-out ones resemble trained ones.
"""

from tasks.problems.stories.four_steps import FOUR_STEPS
from tasks.problems.stories.one_step import ONE_STEP
from tasks.problems.stories.three_steps import THREE_STEPS
from tasks.problems.stories.two_steps import TWO_STEPS
from tasks.problems.template import Template

TEMPLATES: tuple[Template, ...] = (*ONE_STEP, *TWO_STEPS, *THREE_STEPS, *FOUR_STEPS)
