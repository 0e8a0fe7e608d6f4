"""Self-play and pictures of boards."""

from collections.abc import Sequence

from recipes.chess.engines import MaterialEngine
from recipes.chess.formats import canonical_transition, read_state
from recipes.chess.self_play import GAMES, LONGEST, self_play
from recipes.chess.terms import is_analysis
from tasks.records.problems import Problem, Split


def perfect(questions: Sequence[str]) -> list[str]:
    """A policy that knows rules and engine."""
    return [answer(question) for question in questions]


def answer(question: str) -> str:
    state, *rest = question[3:].split("+")
    position = read_state(state.strip())
    assert position is not None
    if rest:
        return canonical_transition(position, rest[0], "fen" if "/" in state else "list")
    best = next(iter(MaterialEngine().evaluate(position)))
    return f"M: {best} E: 0.0 B: {best}"


def test_a_policy_that_knows_the_rules_plays_on_until_the_game_ends(problems: dict[Split, list[Problem]]) -> None:
    found = self_play(problems["test"], perfect)
    assert set(found) == {"self_play_half_moves", "self_play_unended"}
    assert 1 <= found["self_play_half_moves"] <= LONGEST
    assert sum(map(is_analysis, problems["test"])) <= GAMES


def test_one_that_forgets_every_move_makes_the_same_again_which_is_illegal(
    problems: dict[Split, list[Problem]],
) -> None:
    def forgetful(questions: Sequence[str]) -> list[str]:
        """Task A gives the state as it was."""
        return [
            text if question.startswith("P: ") else f"{question[3:].split('+')[0]}+0.001+0+0"
            for question, text in zip(questions, perfect(questions), strict=True)
        ]

    assert self_play(problems["test"], forgetful) == {"self_play_half_moves": 1.0, "self_play_unended": 0.0}


def test_there_is_no_self_play_with_one_task(problems: dict[Split, list[Problem]]) -> None:
    for kind in (True, False):
        assert self_play([p for p in problems["test"] if is_analysis(p) == kind], perfect) == {}
