"""A chess position, and its text as FEN or as a list of pieces.

FEN as python-chess writes it: an en passant square is there only if a pawn may capture on it, and castling rights only
with king and rook on their squares. A list of pieces, `Kg8 Qe6 kd8 w`, has no castling, en passant or clocks.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

FILES = "abcdefgh"
SQUARES = tuple(file + rank for rank in "12345678" for file in FILES)
"""Names by number: a1 is 0, b1 is 1, h8 is 63."""

NUMBERS = {name: number for number, name in enumerate(SQUARES)}
PIECES = "KQRBNPkqrbnp"
"""Symbols of FEN, White's in capitals, in the order of a list of pieces."""

CORNERS = {"K": (4, 7), "Q": (4, 0), "k": (60, 63), "q": (60, 56)}
"""Castling right → squares of its king and its rook."""

Board = Mapping[int, str]
"""Number of a square → the piece on it."""

_LISTED = re.compile(r"[KQRBNPkqrbnp][a-h][1-8]")
_SIDES = re.compile(r"K?Q?k?q?")


class Position(NamedTuple):
    """A position. `castling`: some of KQkq; `en_passant`: the square behind a pawn that may be captured so."""

    board: Board
    white: bool  # to move
    castling: str = ""
    en_passant: int | None = None
    halfmoves: int = 0  # since a capture or a pawn's move
    number: int = 1  # of the full move


def read_fen(text: str) -> Position | None:
    """The position of a FEN; None if it is none. Rights to castle without king and rook on their squares are dropped.

    An en passant square is one that a pawn of the other side has just passed, or the text is no position.
    """
    fields = text.split(" ")
    if len(fields) != 6:
        return None
    placement, side, castling, en_passant, halfmoves, number = fields
    board = _read_placement(placement)
    sides = "" if castling == "-" else castling
    if board is None or side not in ("w", "b") or not _SIDES.fullmatch(sides) or castling == "":
        return None
    if en_passant != "-" and not re.fullmatch("[a-h][36]", en_passant):
        return None
    if not re.fullmatch("[0-9]{1,4}", halfmoves) or not re.fullmatch("[0-9]{1,4}", number):
        return None
    square = None if en_passant == "-" else NUMBERS[en_passant]
    if square is not None and not _is_passed(board, square, side == "w"):
        return None
    return Position(board, side == "w", rights_left(sides, board), square, int(halfmoves), int(number))


def fen_of(position: Position) -> str:
    """The FEN of a position."""
    ranks = []
    for rank in range(7, -1, -1):
        row = "".join(position.board.get(8 * rank + file, ".") for file in range(8))
        ranks.append(re.sub(r"\.+", lambda empty: str(len(empty[0])), row))
    square = "-" if position.en_passant is None else SQUARES[position.en_passant]
    side = "w" if position.white else "b"
    return f"{'/'.join(ranks)} {side} {position.castling or '-'} {square} {position.halfmoves} {position.number}"


def read_list(text: str) -> Position | None:
    """The position of a list of pieces in any order; None if it is none, or two pieces are on one square."""
    *pieces, side = text.split(" ")
    if side not in ("w", "b") or not pieces or not all(map(_LISTED.fullmatch, pieces)):
        return None
    board = {NUMBERS[piece[1:]]: piece[0] for piece in pieces}
    return Position(board, side == "w") if len(board) == len(pieces) else None


def list_of(position: Position) -> str:
    """The list of pieces of a position: by kind, then by square."""
    ranked = sorted((PIECES.index(piece), square) for square, piece in position.board.items())
    return " ".join([*(PIECES[rank] + SQUARES[square] for rank, square in ranked), "w" if position.white else "b"])


def rights_left(castling: str, board: Board) -> str:
    """The rights whose king and rook are on their squares."""
    return "".join(
        right
        for right in castling
        if board.get(CORNERS[right][0]) == ("K" if right.isupper() else "k")
        and board.get(CORNERS[right][1]) == ("R" if right.isupper() else "r")
    )


def _is_passed(board: Board, square: int, white: bool) -> bool:
    """Whether a pawn of the side that does not move now may have passed a square with its last move."""
    ahead = -8 if white else 8
    pawn = board.get(square + ahead) == ("p" if white else "P")
    return square // 8 == (5 if white else 2) and pawn and not {square, square - ahead} & board.keys()


def _read_placement(text: str) -> Board | None:
    ranks = text.split("/")
    if len(ranks) != 8 or re.search("[1-8]{2}", text):
        return None
    board: dict[int, str] = {}
    for rank, row in zip(range(7, -1, -1), ranks, strict=True):
        file = 0
        for symbol in row:
            if symbol in PIECES:
                board[8 * rank + file] = symbol
                file += 1
            elif symbol in "12345678":
                file += int(symbol)
            else:
                return None
        if file != 8:
            return None
    return board
