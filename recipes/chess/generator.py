"""Generator of positions and moves: endings of three to five pieces by material, or positions of random games.

Positions of train and of demonstrations are never those of the other splits: a digest of the position decides.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from recipes.chess.position import SQUARES, Position, list_of, read_fen
from recipes.chess.rules import (
    ending,
    is_possible,
    legal_moves,
    mates,
    position_after,
)
from tasks.seeds import derive_seed

STRONG = ("KQ", "KRR", "KQR", "KR", "KQP", "KRP", "KQN", "KRB")
"""Pieces of the side to move, in an ending."""

WEAK = ("k", "kr", "kn", "kp", "kq")
"""Pieces of the other side."""

MATERIALS = tuple(f"{strong}{weak}" for strong in STRONG for weak in WEAK)
HELD_OUT = 4
"""One in HELD_OUT materials is held out from train."""

RESERVED = 8
"""One in RESERVED positions is kept for validation, test and dev."""

GAME = "game"
"""Material of the positions of random games."""

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
LONGEST_GAME = 100  # half-moves
MATE_TRIES = 100
MATE_SHARE_OF_ANALYSES, MATE_SHARE_OF_TRANSITIONS = 0.5, 0.3
"""Shares of the positions that are drawn again until the side to move has a mate in one, MATE_TRIES times at most."""

ILLEGAL_SHARE = 0.1
"""Share of the moves of task A that are illegal."""


class Draw(NamedTuple):
    """A position with the moves that led to it."""

    position: Position
    history: tuple[str, ...] = ()


def held_out_materials(seed: int) -> set[str]:
    """A quarter of MATERIALS, drawn by the seed; the pieces of each side also occur in materials that are not."""
    for attempt in range(1000):
        rng = Random(derive_seed(seed, "rookworld", "held out", attempt))
        held_out = set(rng.sample(MATERIALS, len(MATERIALS) // HELD_OUT))
        seen = [material for material in MATERIALS if material not in held_out]
        if {_sides(material)[0] for material in seen} == set(STRONG) and {
            _sides(material)[1] for material in seen
        } == set(WEAK):
            return held_out
    raise AssertionError("a quarter of the materials leaves the pieces of each side in another")


def draw_ending(material: str, rng: Random, wanted: Callable[[Position], bool]) -> Position:
    """A position of a material that goes on and is wanted; either colour has the strong side, and it is to move."""
    while True:
        squares = rng.sample(range(64), len(material))
        position = Position(dict(zip(squares, material, strict=True)), True)
        if is_possible(position) and wanted(position) and ending(position) is None:
            return position if rng.random() < 0.5 else mirrored(position)


def draw_game(rng: Random) -> Draw:
    """A position of a random game that goes on; the players capture now and then, else they move at random."""
    while True:
        start = read_fen(START)
        assert start is not None
        position, history = start, list[str]()
        for _ in range(rng.randrange(LONGEST_GAME)):
            moves = legal_moves(position)
            takes = [move for move in moves if move.target in position.board]
            move = rng.choice(takes if takes and rng.random() < 0.4 else moves)
            after = position_after(position, move)
            if ending(after) is not None:
                break
            position, history = after, [*history, move.uci]
        return Draw(position, tuple(history))


def draw(material: str, rng: Random, reserved: bool, mate_share: float) -> Draw:
    """A position of a material or of a game, reserved for validation, test and dev or not."""
    if material == GAME:
        while is_reserved((found := draw_game(rng)).position) != reserved:
            pass
        return found
    tries = MATE_TRIES if rng.random() < mate_share else 1
    for _ in range(tries):
        position = draw_ending(material, rng, lambda found: is_reserved(found) == reserved)
        if tries > 1 and next(mates(position), None) is not None:
            break
    return Draw(position)


def draw_move(position: Position, rng: Random) -> str:
    """A move for task A: ILLEGAL_SHARE of them are not legal, half of the others mate where one can."""
    moves = [move.uci for move in legal_moves(position)]
    if rng.random() < ILLEGAL_SHARE:
        own = [square for square, piece in sorted(position.board.items()) if piece.isupper() == position.white]
        while True:
            move = SQUARES[rng.choice(own)] + rng.choice(SQUARES)
            if move[:2] != move[2:] and move not in moves:
                return move
    mating = sorted(move.uci for move in mates(position)) if rng.random() < 0.5 else []
    return rng.choice(mating or moves)


def is_reserved(position: Position) -> bool:
    """Whether a position, of either colour, is kept for validation, test and dev."""
    seen = position if position.white else mirrored(position)
    return derive_seed("rookworld", "reserved", list_of(seen)) % RESERVED == 0


def mirrored(position: Position) -> Position:
    """The position with colours exchanged."""
    board = {8 * (7 - square // 8) + square % 8: piece.swapcase() for square, piece in position.board.items()}
    en_passant = position.en_passant
    other = None if en_passant is None else 8 * (7 - en_passant // 8) + en_passant % 8
    castling = "".join(sorted(position.castling.swapcase()))
    return Position(board, not position.white, castling, other, position.halfmoves, position.number)


def _sides(material: str) -> tuple[str, str]:
    strong = "".join(piece for piece in material if piece.isupper())
    return strong, material[len(strong) :]
