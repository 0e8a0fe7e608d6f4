"""Agreement of behaviours: weight of a right answer to a problem that no sibling with another answer checks.

Each workflow with the right answer also runs on the question with other quantities; its results are its behaviour.
Wrong programs that give the answer by chance behave differently from one another, right ones alike however they are
written. The behaviour of most completions counts in full, others by their share of that. (Lee, Kim & Jung 2023,
"Weakly supervised semantic parsing with execution-based spurious program filtering", vote on each input separately; on
GSM8K both separate annotated programs from others equally well.)
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import frexp, ldexp
from sys import float_info

from tasks.programs.answer_check import is_right, number_of
from tasks.records.programs import Result
from tasks.records.search import Workflow

BITS = 20
"""Binary digits in which equal values agree: about a millionth, as for answers."""

EPSILON = 4 * float_info.epsilon
"""What float errors may leave of the largest value where 0 is meant."""

Behaviour = tuple[float | str, ...]
"""For each perturbed question a number, or how the program ended in words."""


def agreement(workflows: Sequence[Workflow]) -> list[float]:
    """The weight of the right answer of each workflow of one problem, in [0, 1]; workflows [W] → [W].

    (Completions of the workflows with its behaviour) / (completions of the most frequent behaviour). 0 if it gives
    the same number, or none, for all quantities. 1 if it has no `perturbed_results`.
    """
    votes = Counter[Behaviour]()
    for workflow in workflows:
        if workflow.perturbed_results and not ignores_quantities(workflow):
            votes[behaviour_of(workflow)] += workflow.visits
    return [_counts(workflow, votes) for workflow in workflows]


def has_agreement(workflows: Sequence[Workflow]) -> bool:
    """Whether two different workflows of one problem have the same behaviour."""
    written: dict[Behaviour, set[str]] = defaultdict(set)
    for workflow in workflows:
        if workflow.perturbed_results and not ignores_quantities(workflow):
            written[behaviour_of(workflow)].add(workflow.workflow_id)
    return any(len(names) > 1 for names in written.values())


def behaviour_of(workflow: Workflow) -> Behaviour:
    """Its results on the perturbed questions, values rounded; next to the largest, a float's error is 0."""
    values = [abs(value) for value in map(number_of, workflow.perturbed_results) if value is not None]
    error = max(values, default=0) * EPSILON
    return tuple(_ending(result, error) for result in workflow.perturbed_results)


def ignores_quantities(workflow: Workflow) -> bool:
    """Whether its value does not depend on the quantities, as in `return 72` or a table of the original numbers."""
    value = number_of(workflow.result)
    succeeded = [result for result in workflow.perturbed_results if number_of(result) is not None]
    return value is None or all(is_right(result, value) for result in succeeded)


def _counts(workflow: Workflow, votes: Counter[Behaviour]) -> float:
    if not workflow.perturbed_results:
        return 1.0
    return 0.0 if ignores_quantities(workflow) else votes[behaviour_of(workflow)] / max(votes.values())


def _ending(result: Result, error: float) -> float | str:
    value = number_of(result)
    if value is None:
        return f"{result.status} {result.value}" if result.status == "ok" else result.status
    return _rounded(float(value)) if abs(value) > error else 0.0


def _rounded(value: float) -> float:
    """To BITS binary digits. Not to decimal ones: quantities with two decimals often give values half-way between two
    of these, where float errors decide the direction of rounding."""
    exponent = frexp(value)[1] - BITS
    return ldexp(round(ldexp(value, -exponent)), exponent)
