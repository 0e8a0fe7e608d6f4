"""Picture of a chessboard with a move, as SVG."""

from collections.abc import Iterable
from html import escape

from recipes.chess.formats import read_analysis, read_state, read_transition
from recipes.chess.position import FILES, NUMBERS, Board
from recipes.chess.terms import evaluations_of, is_analysis, is_right
from tasks.records.problems import Problem

SIZE = 24
"""Side of a square."""

GLYPHS = dict(zip("KQRBNPkqrbnp", "♔♕♖♗♘♙♚♛♜♝♞♟", strict=True))
GOOD, BAD = "#2a7f3f", "#c0392b"


def board_svg(problem: Problem, text: str) -> str | None:
    """The board of a question. None if its state cannot be read.

    P: the completion's best move as an arrow, green if right, red if wrong but legal or not; and the engine's, dotted.
    A: the board that the completion gives, red where it differs from the right one.
    """
    if is_analysis(problem):
        return _analysed(problem, text)
    return _carried_on(problem, text)


def _analysed(problem: Problem, text: str) -> str | None:
    position = read_state(problem.question.removeprefix("P: ").strip())
    if position is None:
        return None
    analysis, first = read_analysis(text), next(iter(evaluations_of(problem)))
    arrows = [_arrow(first, GOOD, ' stroke-dasharray="3 3"')]
    if analysis is not None and analysis.best[:2] in NUMBERS and analysis.best[2:4] in NUMBERS:
        right = is_right(problem, analysis.best)
        arrows.append(_arrow(analysis.best, GOOD if right else BAD))
    return _svg(position.board, "".join(arrows))


def _carried_on(problem: Problem, text: str) -> str | None:
    true, given = read_transition(str(problem.answer)), read_transition(text)
    right = read_state(true.state) if true else None
    if right is None:
        return None
    board = read_state(given.state) if given else None
    shown = right.board if board is None else board.board
    wrong = [square for square in range(64) if shown.get(square) != right.board.get(square)]
    move = problem.question.split("+")[1]
    return _svg(shown, _arrow(move, GOOD), range(64) if board is None else wrong)


def _svg(board: Board, over: str, wrong: Iterable[int] = ()) -> str:
    light = "".join(
        f'<rect x="{file * SIZE}" y="{rank * SIZE}" width="{SIZE}" height="{SIZE}"/>'
        for rank in range(8)
        for file in range(8)
        if (rank + file) % 2
    )
    red = "".join(
        f'<rect x="{_left(square)}" y="{_top(square)}" width="{SIZE}" height="{SIZE}" fill="{BAD}" opacity=".35"/>'
        for square in wrong
    )
    pieces = "".join(
        f'<text x="{_left(square) + SIZE // 2}" y="{_top(square) + SIZE - 5}">{GLYPHS[piece]}</text>'
        for square, piece in sorted(board.items())
    )
    side = 8 * SIZE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" width="{side}" height="{side}">'
        f'<rect width="{side}" height="{side}" fill="#f0e4cf"/><g fill="#b58863">{light}</g>{red}'
        f'<g font-size="{SIZE - 4}" text-anchor="middle" fill="#000">{pieces}</g>{over}</svg>'
    )


def _arrow(move: str, colour: str, more: str = "") -> str:
    """A line from square to square with a dot at its end."""
    x1, y1, x2, y2 = (
        centre for name in (move[:2], move[2:4]) for centre in (_centre(name[0], True), _centre(name[1], False))
    )
    return (
        f'<g stroke="{colour}" fill="{colour}" opacity=".8"><title>{escape(move)}</title>'
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke-width="3"{more}/>'
        f'<circle cx="{x2}" cy="{y2}" r="4"/></g>'
    )


def _centre(name: str, file: bool) -> int:
    place = FILES.index(name) if file else 8 - int(name)
    return place * SIZE + SIZE // 2


def _left(square: int) -> int:
    return square % 8 * SIZE


def _top(square: int) -> int:
    return (7 - square // 8) * SIZE
