"""Self-play: the policy plays both sides of games, each time carrying the position on by its own task A."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from recipes.chess.formats import HISTORY, read_analysis, read_state, read_transition
from recipes.chess.position import Position
from recipes.chess.rules import ending, is_legal, position_after, read_move
from recipes.chess.terms import is_analysis
from tasks.environments.protocol import Complete
from tasks.records.problems import Problem

GAMES = 50
LONGEST = 60
"""Half-moves after which a game is left."""


@dataclass
class _Game:
    """A game: its state as the policy has it, and its position by the rules."""

    state: str
    position: Position
    history: list[str]
    open: bool = True


def self_play(problems: Sequence[Problem], complete: Complete) -> dict[str, float]:
    """Mean half-moves until the first illegal move, over games from the first GAMES positions of task P.

    {} unless there are problems of both tasks. The policy moves by the best move of P, and reads the next state from
    its own completion of A; what is legal is up to the rules. A game also ends where the rules end it, with a malformed
    completion, and after LONGEST half-moves.
    """
    analyses = [problem for problem in problems if is_analysis(problem)]
    if not analyses or len(analyses) == len(problems):
        return {}
    states = [problem.question.removeprefix("P: ").strip() for problem in analyses[:GAMES]]
    games = [_Game(state, position, []) for state in states if (position := read_state(state)) is not None]
    for _ in range(LONGEST):
        playing = [game for game in games if game.open]
        if not playing:
            break
        _move(playing, complete)
    return {
        "self_play_half_moves": fmean(len(game.history) for game in games),
        "self_play_unended": fmean(float(game.open) for game in games),
    }


def _move(games: Sequence[_Game], complete: Complete) -> None:
    """One half-move in each game."""
    for game, text in zip(games, complete([f"P: {game.state} " for game in games]), strict=True):
        analysis = read_analysis(text)
        move = None if analysis is None else read_move(analysis.best)
        if move is None or not is_legal(game.position, move):
            game.open = False
            continue
        game.position = position_after(game.position, move)
        game.history.append(move.uci)
        game.open = ending(game.position) is None
    moved = [game for game in games if game.open]
    asked = [f"A: {game.state}+{game.history[-1]}+{' '.join(game.history[-HISTORY:])}+" for game in moved]
    for game, text in zip(moved, complete(asked) if asked else [], strict=True):
        transition = read_transition(text)
        if transition is None:
            game.open = False
        else:
            game.state = transition.state
