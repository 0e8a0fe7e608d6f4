"""The stories of the generator, written by hand: add one here and it takes part.

Rules (each is tested): no number stands in a phrasing outside a quantity, no number word but those of
`template.WORDS`, and a family has several templates, so that what is held out resembles something that was learnt.
"""

from tasks.problems.stories.four_steps import FOUR_STEPS
from tasks.problems.stories.one_step import ONE_STEP
from tasks.problems.stories.three_steps import THREE_STEPS
from tasks.problems.stories.two_steps import TWO_STEPS
from tasks.problems.template import Template

TEMPLATES: tuple[Template, ...] = (*ONE_STEP, *TWO_STEPS, *THREE_STEPS, *FOUR_STEPS)
