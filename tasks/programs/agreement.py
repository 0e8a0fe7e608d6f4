"""Agreement of behaviours: how far a right answer is trusted where a problem has no siblings to check it with.

Each workflow that gives the right answer is also run on the question with other quantities. What it gives there is
its behaviour. Wrong programs that hit an answer by chance differ from one another; right ones do the same, however
they are written: the behaviour of most completions counts in full, others by their share of that. (Lee, Kim & Jung
2023, "Weakly supervised semantic parsing with execution-based spurious program filtering", votes on each input alone;
on GSM8K the two tell annotated programs from others equally well.)
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import frexp, ldexp

from tasks.programs.answer_check import is_right, number_of
from tasks.records import Result, Workflow

BITS = 20
"""Binary digits to which two values agree that count as the same: to about a millionth, as answers are judged."""

Behaviour = tuple[float | str, ...]
"""For each perturbed question a number, or in words how the program ended."""


def agreement(workflows: Sequence[Workflow]) -> list[float]:
    """What the right answer of each workflow of one problem counts, in [0, 1]; workflows [W] → [W].

    Completions of the workflows that behave like it / completions of the behaviour that has most. 0 where it gives
    the same number or none at all whatever the quantities are. 1 where it has no `perturbed_results`.
    """
    votes = Counter[Behaviour]()
    for workflow in workflows:
        if workflow.perturbed_results and not ignores_quantities(workflow):
            votes[behaviour_of(workflow)] += workflow.visits
    return [_counts(workflow, votes) for workflow in workflows]


def has_agreement(workflows: Sequence[Workflow]) -> bool:
    """Whether two of the workflows of one problem, differently written, behave alike."""
    written: dict[Behaviour, set[str]] = defaultdict(set)
    for workflow in workflows:
        if workflow.perturbed_results and not ignores_quantities(workflow):
            written[behaviour_of(workflow)].add(workflow.workflow_id)
    return any(len(names) > 1 for names in written.values())


def behaviour_of(workflow: Workflow) -> Behaviour:
    """What it gives on the perturbed questions, values rounded."""
    return tuple(map(_ending, workflow.perturbed_results))


def ignores_quantities(workflow: Workflow) -> bool:
    """Whether no quantity matters to it: `return 72`, or what knows the question's own numbers and no others."""
    own = number_of(workflow.result)
    given = [result for result in workflow.perturbed_results if number_of(result) is not None]
    return own is None or all(is_right(result, own) for result in given)


def _counts(workflow: Workflow, votes: Counter[Behaviour]) -> float:
    if not workflow.perturbed_results:
        return 1.0
    return 0.0 if ignores_quantities(workflow) else votes[behaviour_of(workflow)] / max(votes.values())


def _ending(result: Result) -> float | str:
    value = number_of(result)
    if value is None:
        return f"{result.status} {result.value}" if result.status == "ok" else result.status
    return _rounded(float(value))


def _rounded(value: float) -> float:
    """To BITS binary digits, of the whole below 1, of the value above. Not to decimal ones: quantities with two
    decimals often give values half-way between two of these, and which side they fall on is the rounding of floats."""
    exponent = max(frexp(value)[1], 0) - BITS
    return ldexp(round(ldexp(value, -exponent)), exponent)
