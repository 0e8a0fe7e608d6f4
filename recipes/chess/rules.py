"""The rules of chess: attacked squares, legal moves, the position after a move, and how a game ends.

Compared with python-chess on random positions by the tests. Repetition is not known, because a position has no history.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from recipes.chess.position import CORNERS, NUMBERS, SQUARES, Board, Position, rights_left

Ending = Literal["checkmate", "stalemate", "insufficient material", "75 moves"]

LONGEST_CLOCK = 150
"""Half-moves without a capture or a pawn's move after which the game is drawn (FIDE 9.6.2)."""

_STRAIGHT = ((1, 0), (-1, 0), (0, 1), (0, -1))
_DIAGONAL = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_JUMPS = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))
_STEPS = {
    "K": _STRAIGHT + _DIAGONAL, "N": _JUMPS, "P": ((-1, 1), (1, 1)), "p": ((-1, -1), (1, -1)),
    "Q": _STRAIGHT + _DIAGONAL, "R": _STRAIGHT, "B": _DIAGONAL,
}  # fmt: skip
_SLIDERS = "QRB"
PROMOTIONS = "qrbn"


class Move(NamedTuple):
    """From one square to another; `promotion`: q, r, b or n, else empty."""

    origin: int
    target: int
    promotion: str = ""

    @property
    def uci(self) -> str:
        """The move as UCI writes it: e2e4, e7e8q, castling e1g1."""
        return SQUARES[self.origin] + SQUARES[self.target] + self.promotion


def read_move(text: str) -> Move | None:
    """The move of a UCI text, legal or not; None if it is none."""
    origin, target, promotion = NUMBERS.get(text[:2]), NUMBERS.get(text[2:4]), text[4:]
    if origin is None or target is None or (promotion and promotion not in tuple(PROMOTIONS)):
        return None
    return Move(origin, target, promotion)


def _rays(symbol: str) -> list[tuple[tuple[int, ...], ...]]:
    """By square: for each direction of a piece the squares that it reaches on an empty board, the nearest first."""
    found = []
    for square in range(64):
        rays = []
        for right, up in _STEPS[symbol]:
            ray, file, rank = [], square % 8 + right, square // 8 + up
            while 0 <= file < 8 and 0 <= rank < 8:
                ray.append(8 * rank + file)
                if symbol not in _SLIDERS:
                    break
                file, rank = file + right, rank + up
            if ray:
                rays.append(tuple(ray))
        found.append(tuple(rays))
    return found


_DRAWN = {symbol: _rays(symbol) for symbol in _STEPS}
RAYS = _DRAWN | {symbol.lower(): rays for symbol, rays in _DRAWN.items() if symbol not in "Pp"}
"""Piece → square → rays; of a pawn the squares that it attacks."""

_PATHS = {
    symbol: [{target: ray[:place] for ray in rays for place, target in enumerate(ray)} for rays in by_square]
    for symbol, by_square in RAYS.items()
}
"""Piece → square → attacked square → the squares between, which must be empty."""


def is_attacked(board: Board, square: int, by_white: bool) -> bool:
    """Whether a piece of one side attacks a square."""
    for origin, piece in board.items():
        path = _PATHS[piece][origin].get(square)
        if path is not None and piece.isupper() == by_white and board.keys().isdisjoint(path):
            return True
    return False


def king_square(board: Board, white: bool) -> int:
    """The square of a king. Raises ValueError without one."""
    wanted = "K" if white else "k"
    for square, piece in board.items():
        if piece == wanted:
            return square
    raise ValueError(f"no {wanted} on the board")


def in_check(position: Position) -> bool:
    """Whether the side to move is in check."""
    return is_attacked(position.board, king_square(position.board, position.white), not position.white)


def is_possible(position: Position) -> bool:
    """Whether both sides have one king, no pawn is on the first or last rank, and the side to move gives no check."""
    pieces = list(position.board.values())
    if pieces.count("K") != 1 or pieces.count("k") != 1:
        return False
    if any(piece in "Pp" and square // 8 in (0, 7) for square, piece in position.board.items()):
        return False
    return not is_attacked(position.board, king_square(position.board, not position.white), position.white)


def legal_moves(position: Position) -> list[Move]:
    """The legal moves, sorted by their UCI text; [] if the game has ended by checkmate or stalemate."""
    return sorted((move for move in _pseudo_moves(position) if _is_safe(position, move)), key=lambda move: move.uci)


def is_legal(position: Position, move: Move) -> bool:
    """Whether a move is legal."""
    return position.board.get(move.origin, "").isupper() == position.white and move in legal_moves(position)


def board_after(position: Position, move: Move) -> Board:
    """The board after a move that follows the pieces' ways."""
    board = dict(position.board)
    piece = board.pop(move.origin)
    if piece in "Pp" and move.target == position.en_passant:
        del board[move.target + (-8 if position.white else 8)]
    if piece in "Kk" and abs(move.target - move.origin) == 2:
        right = "K" if move.target > move.origin else "Q"
        rook = CORNERS[right if position.white else right.lower()][1]
        board[(move.origin + move.target) // 2] = board.pop(rook)
    board[move.target] = _promoted(move.promotion, position.white) or piece
    return board


def position_after(position: Position, move: Move) -> Position:
    """The position after a legal move."""
    board = board_after(position, move)
    pawn = position.board[move.origin] in "Pp"
    quiet = not pawn and move.target not in position.board
    after = Position(
        board,
        not position.white,
        rights_left(position.castling, board),
        (move.origin + move.target) // 2 if pawn and abs(move.target - move.origin) == 16 else None,
        position.halfmoves + 1 if quiet else 0,
        position.number + (not position.white),
    )
    return with_real_en_passant(after)


def with_real_en_passant(position: Position) -> Position:
    """The position without its en passant square if no pawn may capture there."""
    square = position.en_passant
    if square is None or any(position.board[m.origin] in "Pp" and m.target == square for m in legal_moves(position)):
        return position
    return position._replace(en_passant=None)


def ending(position: Position) -> Ending | None:
    """How the game has ended; None if it goes on."""
    if not has_legal_move(position):
        return "checkmate" if in_check(position) else "stalemate"
    if _is_dead(position.board):
        return "insufficient material"
    return "75 moves" if position.halfmoves >= LONGEST_CLOCK else None


def has_legal_move(position: Position) -> bool:
    """Whether the side to move has a legal move."""
    return any(_is_safe(position, move) for move in _pseudo_moves(position))


def captures(position: Position) -> Iterator[Move]:
    """The legal captures and promotions."""
    for move in _pseudo_moves(position):
        takes = move.target in position.board or (
            move.target == position.en_passant and position.board[move.origin] in "Pp"
        )
        if (takes or move.promotion) and _is_safe(position, move):
            yield move


def mates(position: Position) -> Iterator[Move]:
    """The legal moves that give checkmate."""
    king = king_square(position.board, not position.white)
    for move in _pseudo_moves(position):
        gives_check = is_attacked(board_after(position, move), king, position.white)
        if gives_check and _is_safe(position, move) and not has_legal_move(position_after(position, move)):
            yield move


def _pseudo_moves(position: Position) -> Iterator[Move]:
    """Moves that follow the pieces' ways, whether or not they leave the king in check."""
    board, white = position.board, position.white
    for origin, piece in board.items():
        if piece.isupper() != white:
            continue
        if piece in "Pp":
            yield from _pawn_moves(position, origin, piece)
            continue
        for ray in RAYS[piece][origin]:
            for target in ray:
                other = board.get(target)
                if other is None or other.isupper() != white:
                    yield Move(origin, target)
                if other is not None:
                    break
    yield from _castlings(position)


def _pawn_moves(position: Position, origin: int, piece: str) -> Iterator[Move]:
    board, white = position.board, position.white
    ahead, start = (8, 1) if white else (-8, 6)
    targets = [target for (target,) in RAYS[piece][origin] if _may_capture(position, target)]
    if origin + ahead not in board:
        targets.append(origin + ahead)
        if origin // 8 == start and origin + 2 * ahead not in board:
            targets.append(origin + 2 * ahead)
    for target in targets:
        last = target // 8 in (0, 7)
        yield from (Move(origin, target, promotion) for promotion in (PROMOTIONS if last else ("",)))


def _may_capture(position: Position, target: int) -> bool:
    other = position.board.get(target)
    return target == position.en_passant if other is None else other.isupper() != position.white


def _castlings(position: Position) -> Iterator[Move]:
    """Castling: no piece between king and rook, and the king neither in check nor over an attacked square."""
    for right in position.castling:
        if right.isupper() != position.white:
            continue
        king, rook = CORNERS[right]
        step = 1 if rook > king else -1
        between = range(king + step, rook, step)
        crossed = (king, king + step)  # its target is looked at as every move's
        if not any(square in position.board for square in between) and not any(
            is_attacked(position.board, square, not position.white) for square in crossed
        ):
            yield Move(king, king + 2 * step)


def _is_safe(position: Position, move: Move) -> bool:
    """Whether the own king is not attacked after a move."""
    board = board_after(position, move)
    king = move.target if board[move.target] in "Kk" else king_square(board, position.white)
    return not is_attacked(board, king, not position.white)


def _promoted(promotion: str, white: bool) -> str:
    return promotion.upper() if white else promotion


def _is_dead(board: Board) -> bool:
    """Whether neither side could ever mate: at most one knight or bishop, or only bishops on squares of one colour."""
    others = [(square, piece.upper()) for square, piece in board.items() if piece not in "Kk"]
    if any(piece in "QRP" for _, piece in others):
        return False
    colours = {(square // 8 + square % 8) % 2 for square, _ in others}
    return len(others) <= 1 or (len(colours) == 1 and all(piece == "B" for _, piece in others))
