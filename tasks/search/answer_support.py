"""Evidence for a right answer besides the answer itself: siblings, or agreement of workflows on perturbed questions.

A perturbed question has other quantities, and no known answer.
"""

import re
from collections.abc import Collection, Sequence
from math import isclose
from random import Random

from tasks.environments.runner import Runner
from tasks.programs.agreement import has_agreement
from tasks.programs.operators.builtin import MAX_TEXT, read_quantities
from tasks.programs.sandbox.sandbox import Program
from tasks.records.problems import NUMBER
from tasks.records.search import Workflow
from tasks.search.policy_tree import FoundWorkflow, PolicyTree
from tasks.seeds import derive_seed

TEXTS = 3
"""Texts for each question: two siblings already reject 99.6 % of the wrong workflows."""

TRIES = 4
"""Draws for each text: a single small quantity has few alternatives."""

_PERCENT = re.compile(r"([ ]?%|[ -]percent)\Z", re.IGNORECASE)
_PLAIN = re.compile(r"[0-9,]*(?:\.([0-9]+))?")


def perturb_question(question: str, problem_id: str) -> tuple[str, ...]:
    """The question with each of its quantities replaced by another one of the same kind, in up to TEXTS ways.

    Integers stay integers, percentages percentages, shares below 1, and decimals keep their number of digits. All are
    written in digits, between 0.6 and 1.7 times the original (small integers a little farther off). `numbers` reads
    from each text as many quantities as from the question, each different. Fewer texts where no more differ, none
    without a quantity. A function of the arguments only.
    """
    values, written, between = read_quantities(question)
    texts: list[str] = []
    for place in range(TEXTS * TRIES if values else 0):
        rng = Random(derive_seed("search", "perturbed", problem_id, place))
        drawn = [_other(value, as_written, rng) for value, as_written in zip(values, written, strict=True)]
        text = between[0] + "".join(new + rest for new, rest in zip(drawn, between[1:], strict=True))
        if text not in texts and _reads(text, between, values):
            texts.append(text)
        if len(texts) == TEXTS:
            break
    return tuple(texts)


def _other(value: int | float, written: str, rng: Random) -> str:
    """Another quantity of the same kind, as it is written."""
    percent = _PERCENT.search(written)
    ending = percent[0] if percent else ""
    scaled = round(value * 100, 9) if percent else value
    decimals = _decimals(scaled, written.removesuffix(ending))
    most = 10**decimals * (100 if percent else 1) if 0 < value < 1 else None
    # Drawn as an integer of the last digit's units, so that decimals keep their number of digits.
    whole, part = divmod(_near(round(scaled * 10**decimals), most, rng), 10**decimals)
    return (f"{whole}.{part:0{decimals}d}" if decimals else str(whole)) + ending


def _decimals(value: int | float, written: str) -> int:
    """Digits after the point: as many as are written; for words and fractions 0 for an integer, else 2."""
    plain = _PLAIN.fullmatch(written)
    if plain:
        return len(plain[1] or "")
    return 0 if value == round(value) else 2


def _near(whole: int, below: int | None, rng: Random) -> int:
    """Another integer near `whole` ≥ 0, at least 1 and less than `below`, with as many trailing zeros as leave two
    leading digits."""
    zeros = len(str(whole)) - len(str(whole).rstrip("0")) if whole else 0
    unit = int(10 ** min(zeros, max(0, len(str(whole)) - 2)))
    count = whole // unit
    low, high = max(1, -(-6 * count // 10)), max(17 * count // 10, count + 3)
    if below is not None:
        high = min(high, (below - 1) // unit)
    drawn = rng.randrange(low, max(high, low + 1))  # one less than `high`: the next line skips `count`
    return (drawn + (drawn >= count)) * unit


def _reads(text: str, between: Sequence[str], values: Sequence[int | float]) -> bool:
    """True if the quantities of `text` are at the same places as in the question, and all differ."""
    read, _, around = read_quantities(text)
    return len(text) <= MAX_TEXT and around == list(between) and not any(map(isclose, read, values))


def run_perturbed_questions(trees: Sequence[PolicyTree], runner: Runner) -> None:
    """Run each right workflow on perturbed questions, unless siblings have other answers; sets `perturbed_results`."""
    right: list[FoundWorkflow] = []
    programs: list[Program] = []
    for tree in trees:
        if tree.problem.answers_vary or tree.problem.evaluator != NUMBER:  # texts are not computed from quantities
            continue
        solutions = [workflow for workflow in tree.workflows.values() if workflow.reward == 1.0]
        questions = perturb_question(tree.problem.question, tree.problem.problem_id) if solutions else ()
        right += solutions
        programs += [Program(workflow.code, questions) for workflow in solutions]
    for workflow, results in zip(right, runner.run(programs), strict=True):
        workflow.perturbed_results = results


def count_support(workflows: Sequence[Workflow], varied: Collection[str]) -> dict[str, float]:
    """Number of solved problems by kind of evidence; `varied`: ids of those whose siblings have other answers.

    Siblings with the same answer are no evidence: a constant solves all of them.
    """
    solving: dict[str, list[Workflow]] = {}
    for workflow in workflows:
        if workflow.value == 1.0:
            solving.setdefault(workflow.problem_id, []).append(workflow)
    by_siblings = sum(problem_id in varied for problem_id in solving)
    by_agreement = sum(has_agreement(solutions) for solutions in solving.values())
    return {
        "solved_by_siblings": by_siblings,
        "solved_by_agreement": by_agreement,
        "solved_by_one_answer": len(solving) - by_siblings - by_agreement,
    }
