"""Comparison of the rules of recipes/chess with python-chess, on positions of random games.

python-chess is GPL-3: the extra `chess` installs it, and nothing of Graft but this check imports it.
"""

import random
from collections.abc import Iterator
from typing import Any

from recipes.chess.formats import canonical_transition
from recipes.chess.position import SQUARES, fen_of, read_fen
from recipes.chess.rules import legal_moves, mates

RESTART = 0.005
"""Probability that a game is left, so that openings are as frequent as endings."""


def differences(count: int, seed: int) -> list[str]:
    """A line for each of `count` positions on which the two disagree.

    Compared are the FEN, the legal moves, which of them mate, and the completion of task A for a legal and a random
    move: the next FEN, the reward, whether the game is over.
    """
    rng = random.Random(seed)
    return [line for board in random_boards(count, rng) for line in _compared(board, rng)]


def random_boards(count: int, rng: random.Random) -> Iterator[Any]:
    """Boards of python-chess from random games in which castling, en passant and promotions are frequent."""
    import chess

    board = chess.Board()
    for _ in range(count):
        yield board
        moves = list(board.legal_moves)
        if not moves or board.is_game_over() or rng.random() < RESTART:
            board = chess.Board()
            continue
        rare = [move for move in moves if move.promotion or board.is_castling(move) or board.is_en_passant(move)]
        board.push(rng.choice(rare if rare and rng.random() < 0.3 else moves))


def _compared(board: Any, rng: random.Random) -> Iterator[str]:
    fen = board.fen()
    position = read_fen(fen)
    if position is None or fen_of(position) != fen:
        yield f"{fen}: read as {position}"
        return
    ours = legal_moves(position)
    theirs = sorted(move.uci() for move in board.legal_moves)
    if [move.uci for move in ours] != theirs:
        yield f"{fen}: legal moves {[move.uci for move in ours]}, not {theirs}"
        return
    mating = sorted(move.uci for move in mates(position))
    if mating != (expected := [move for move in theirs if _mates(board, move)]):
        yield f"{fen}: mates {mating}, not {expected}"
    tried = [rng.choice(theirs)] if theirs else []
    for move in [*tried, rng.choice(SQUARES) + rng.choice(SQUARES)]:
        text = canonical_transition(position, move, "fen")
        if text != (wanted := _transition(board, move)):
            yield f"{fen} {move}: {text}, not {wanted}"


def _mates(board: Any, move: str) -> bool:
    board.push_uci(move)
    mates = bool(board.is_checkmate())
    board.pop()
    return mates


def _transition(board: Any, uci: str) -> str:
    """The completion of task A by python-chess, for the position alone: its history would add draws by repetition."""
    import chess

    fresh = chess.Board(board.fen())
    if uci[:2] == uci[2:4] or chess.Move.from_uci(uci) not in fresh.legal_moves:
        return f"{fresh.fen()}+-1.0+0+1"
    mover = fresh.turn
    fresh.push_uci(uci)
    outcome = fresh.outcome()
    reward = 0.001 if outcome is None else 0.5 if outcome.winner is None else 1.0 if outcome.winner == mover else -1.0
    return f"{fresh.fen()}+{reward}+{int(outcome is not None)}+0"
