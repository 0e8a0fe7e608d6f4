"""Texts of RookWorld's two tasks.

`P: {state} ` → `M: {candidates} E: {evaluations} B: {best move}`, and
`A: {state}+{move}+{last moves, this one included}+` → `{next state}+{reward}+{terminated}+{truncated}`.

Moves are UCI. Evaluations are in pawns for the side to move, as Python prints a float; a mate in n moves is
1000 - n/100. The reward is 1.0 if the mover wins, 0.5 for a draw, -1.0 for an illegal move, which truncates the game,
else 0.001. Runs of blanks count as one, because the original pads its lines to fixed widths. (Rahn, RookWorld:
generate_selfplay.py, generate_rollouts.py, make_dataset.py; but its best move for Black is the last of the five.)
"""

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal, NamedTuple

from recipes.chess.position import Position, fen_of, list_of, read_fen, read_list
from recipes.chess.rules import ending, is_legal, position_after, read_move

Task = Literal["P", "A"]
Notation = Literal["fen", "list"]

CANDIDATES = 5
HISTORY = 10
"""Moves in the prompt of A, at most."""

MATE = 1000.0
"""Evaluation of a mate, less 0.01 for each move until it."""

Evaluations = Mapping[str, float]
"""Legal move → pawns for the side to move, the best first."""

_ANALYSIS = re.compile(r"M: ([^ ]+(?: [^ ]+)*) E: ([^ ]+(?: [^ ]+)*) B: ([^ ]+)")
_NUMBER = re.compile(r"-?[0-9]{1,4}\.[0-9]{1,2}")


class Analysis(NamedTuple):
    """A completion of task P: candidate moves, their evaluations, the best move."""

    moves: list[str]
    evaluations: list[str]
    best: str


class Transition(NamedTuple):
    """A completion of task A: the position after a move, its reward and two flags."""

    state: str
    reward: str
    terminated: str
    truncated: str


def state_text(position: Position, notation: Notation) -> str:
    """The position in a notation."""
    return fen_of(position) if notation == "fen" else list_of(position)


def read_state(text: str) -> Position | None:
    """The position of a text in either notation, None if it is none."""
    return read_fen(text) if "/" in text else read_list(text)


def ranked(evaluations: Evaluations) -> dict[str, float]:
    """The best move first, equal ones in the order of their texts."""
    return dict(sorted(evaluations.items(), key=lambda pair: (-pair[1], pair[0])))


def analysis_question(position: Position, notation: Notation) -> str:
    """The prompt of task P for a position."""
    return f"P: {state_text(position, notation)} "


def analysis_text(moves: Sequence[str], evaluations: Evaluations, best: str) -> str:
    """A completion of P; `evaluations` has those of the moves."""
    return f"M: {' '.join(moves)} E: {' '.join(str(evaluations[move]) for move in moves)} B: {best}"


def canonical_analysis(evaluations: Evaluations, rng: Random) -> str:
    """The canonical completion of P: the first CANDIDATES of the ranked moves, in random order, and the first."""
    best = list(evaluations)[:CANDIDATES]
    return analysis_text(rng.sample(best, len(best)), evaluations, best[0])


def transition_question(position: Position, move: str, notation: Notation, history: Sequence[str] = ()) -> str:
    """The prompt of A; `history`: the moves that led to the position."""
    return f"A: {state_text(position, notation)}+{move}+{' '.join([*history, move][-HISTORY:])}+"


def canonical_transition(position: Position, move: str, notation: Notation) -> str:
    """The canonical completion of A, by the rules."""
    read = read_move(move)
    if read is None or not is_legal(position, read):
        return f"{state_text(position, notation)}+-1.0+0+1"
    after = position_after(position, read)
    end = ending(after)
    reward = "0.001" if end is None else "1.0" if end == "checkmate" else "0.5"
    return f"{state_text(after, notation)}+{reward}+{int(end is not None)}+0"


def read_analysis(text: str) -> Analysis | None:
    """The parts of a completion of P; None for another form. Moves and numbers may be anything without blanks."""
    match = _ANALYSIS.fullmatch(collapsed(text))
    return Analysis(match[1].split(" "), match[2].split(" "), match[3]) if match else None


def read_transition(text: str) -> Transition | None:
    """The parts of a completion of A; None for another form."""
    fields = collapsed(text).split("+")
    return Transition(*fields) if len(fields) == 4 else None


def read_evaluation(text: str) -> float | None:
    """The number of an evaluation, None unless it is written as Python prints a float: `-0.5`, not `-.50`."""
    return float(text) if _NUMBER.fullmatch(text) and str(float(text)) == text and text != "-0.0" else None


def collapsed(text: str) -> str:
    """The text with runs of blanks and line ends as one blank, and none around it."""
    return " ".join(text.split())
