"""Reward terms and measures of RookWorld's two tasks, all but errors and half-moves in [0, 1].

The canonical completion earns 1 in each term of its task, and a completion in which one character differs, blanks
aside, earns less in one and more in none. A term is 0 for the problems of the other task.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from recipes.chess.formats import (
    CANDIDATES,
    Analysis,
    Evaluations,
    Transition,
    ranked,
    read_analysis,
    read_evaluation,
    read_state,
    read_transition,
)
from tasks.records.problems import Problem
from tasks.records.programs import Result

ANALYSIS = "analysis"
"""Field of a problem of task P: what the engine says of each legal move."""

AN_EQUAL = 0.95
"""Of a move that the engine finds as good as the canonical one: one answer is the canonical one, others are close."""

BY_RANK = (1.0, 0.8, 0.6, 0.4, 0.2)
"""`best` by the number of moves that are better."""

LEGAL = 0.1
"""`best` of any other legal move."""

LARGEST_ERROR = 10.0
"""Bound of an evaluation's error as a measure, in pawns: a mate is a thousand."""

_REWARDS = ("0.001", "0.5", "1.0", "-1.0")


def is_analysis(problem: Problem) -> bool:
    """Whether a problem is of task P."""
    return problem.question.startswith("P: ")


def evaluations_of(problem: Problem) -> Evaluations:
    """The engine's evaluations in a problem of P, the best first; see `evaluations_in`."""
    return evaluations_in(problem.fields)


def evaluations_in(fields: Mapping[str, object]) -> Evaluations:
    """The engine's evaluations in the fields of a problem of P. Raises KeyError or TypeError without them."""
    found = fields[ANALYSIS]
    if not isinstance(found, dict) or not found:
        raise TypeError(f"fields.{ANALYSIS} is no table of moves")
    return ranked({move: float(value) for move, value in found.items()})


def best(problem: Problem, text: str, results: Sequence[Result]) -> float:  # noqa: ARG001
    """P: 1 for the engine's first move, less for others by BY_RANK, 0 for an illegal one."""
    if not is_analysis(problem):
        return 0.0
    evaluations, given = evaluations_of(problem), read_analysis(text)
    return 0.0 if given is None else _best(evaluations, given.best)


def candidates(problem: Problem, text: str, results: Sequence[Result]) -> float:  # noqa: ARG001
    """P: the share of the engine's first CANDIDATES moves among those of both (Jaccard), AN_EQUAL for equal ones."""
    if not is_analysis(problem):
        return 0.0
    evaluations, given = evaluations_of(problem), read_analysis(text)
    if given is None:
        return 0.0
    first = list(evaluations)[:CANDIDATES]
    wanted, worst = set(first), evaluations[first[-1]]
    moves = set(given.moves)
    equal = {move for move, value in evaluations.items() if value >= worst} - wanted
    earned = len(moves & wanted) + AN_EQUAL * len(moves & equal)
    return min(earned, len(wanted)) / max(len(wanted), len(given.moves))


def evaluations(problem: Problem, text: str, results: Sequence[Result]) -> float:  # noqa: ARG001
    """P: the mean of 1 - |error| in pawns, at least 0, over the moves as they are written; 0 for illegal ones."""
    if not is_analysis(problem):
        return 0.0
    true, given = evaluations_of(problem), read_analysis(text)
    if given is None or len(given.moves) != len(given.evaluations):
        return 0.0
    earned = [max(0.0, 1 - error) for error in _errors(true, given)]
    return sum(earned) / max(len(given.moves), min(CANDIDATES, len(true)))


def form(problem: Problem, text: str, results: Sequence[Result]) -> float:  # noqa: ARG001
    """A: the share of the four fields that have their form, whatever they say; 0 unless there are four."""
    given = None if is_analysis(problem) else read_transition(text)
    return 0.0 if given is None else fmean(_forms(given))


def content(problem: Problem, text: str, results: Sequence[Result]) -> float:  # noqa: ARG001
    """A: two thirds for all that is exact, a sixth each for a similar state and for the shares of other fields."""
    given = None if is_analysis(problem) else read_transition(text)
    if given is None:
        return 0.0
    true = _transition(problem)
    others = sum(one == other for one, other in zip(given[1:], true[1:], strict=True)) / 3
    return (4 * (given == true) + similarity(given.state, true.state) + others) / 6


TERMS = {"best": best, "candidates": candidates, "evaluations": evaluations, "format": form, "content": content}
"""By the names of their weights in `environment.weights`."""


def is_right(problem: Problem, value: object) -> bool:
    """Whether a value of the environment's `parse` is right.

    P: no legal move is better, whatever the engine's first one is. A: exact.
    """
    if not is_analysis(problem):
        return value == problem.answer
    evaluations = evaluations_of(problem)
    return value in evaluations and evaluations[str(value)] == max(evaluations.values())


def measures(problem: Problem, text: str) -> dict[str, float]:
    """What is known of a completion, for the means of an evaluation."""
    return _analysis_measures(problem, text) if is_analysis(problem) else _transition_measures(problem, text)


def similarity(text: str, other: str) -> float:
    """1 - Levenshtein distance / length of the longer text."""
    if text == other:
        return 1.0
    longest = max(len(text), len(other))
    while text and text[0] == other[:1]:  # most states differ late
        text, other = text[1:], other[1:]
    row = list(range(len(other) + 1))
    for i, character in enumerate(text, 1):
        before, row = row, [i]
        for j, compared in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (character != compared)))
    return 1 - row[-1] / longest


def _best(evaluations: Evaluations, move: str) -> float:
    if move not in evaluations:
        return 0.0
    if move == next(iter(evaluations)):
        return BY_RANK[0]
    better = sum(value > evaluations[move] for value in evaluations.values())
    return (BY_RANK[better] if better < len(BY_RANK) else LEGAL) * (1.0 if better else AN_EQUAL)


def _errors(true: Evaluations, given: Analysis) -> list[float]:
    """|error| in pawns of each evaluation that has the form of one and whose move is legal."""
    read = [
        (true[move], read_evaluation(text))
        for move, text in zip(given.moves, given.evaluations, strict=False)
        if move in true
    ]
    return [abs(expected - value) for expected, value in read if value is not None]


def _forms(given: Transition) -> tuple[bool, ...]:
    flags = (given.terminated in ("0", "1"), given.truncated in ("0", "1"))
    return (read_state(given.state) is not None, given.reward in _REWARDS, *flags)


def _transition(problem: Problem) -> Transition:
    """The canonical completion of a problem of A. Raises ValueError if its answer is none."""
    true = read_transition(str(problem.answer))
    if true is None:
        raise ValueError(f"{problem.problem_id}: the answer is no completion of A")
    return true


def _analysis_measures(problem: Problem, text: str) -> dict[str, float]:
    true, given = evaluations_of(problem), read_analysis(text)
    if given is None:
        return {"p_legal": 0.0, "p_best_move": 0.0, "p_top5_overlap": 0.0, "p_malformed": 1.0}
    written = [*given.moves, given.best]
    worst = list(true.values())[:CANDIDATES][-1]
    top = min(CANDIDATES, len(true))
    errors = [min(error, LARGEST_ERROR) for error in _errors(true, given)]
    return {
        "p_legal": fmean(float(move in true) for move in written),
        "p_best_move": float(is_right(problem, given.best)),
        "p_top5_overlap": min(sum(true.get(move, worst - 1) >= worst for move in set(given.moves)), top) / top,
        "p_malformed": 0.0,
        **({"p_evaluation_error": fmean(errors)} if errors else {}),
    }


def _transition_measures(problem: Problem, text: str) -> dict[str, float]:
    true, given = _transition(problem), read_transition(text)
    names = ("a_exact", "a_lenient", "a_similarity", "a_reward_right", "a_terminated_right", "a_truncated_right")
    if given is None:
        return {**dict.fromkeys(names, 0.0), "a_invalid": 1.0}
    values = (
        given == true,
        given.state.split(" ")[:4] == true.state.split(" ")[:4] if "/" in true.state else given.state == true.state,
        similarity(given.state, true.state),
        given.reward == true.reward,
        given.terminated == true.terminated,
        given.truncated == true.truncated,
    )
    return {**dict(zip(names, map(float, values), strict=True)), "a_invalid": float(not all(_forms(given)))}
