"""Engines that evaluate the legal moves of a position: two plies of material, or Stockfish.

Both are deterministic. The first gives the same on every machine; the second needs its program, and other versions of
it evaluate otherwise, so its name is part of the problems' `source`.
"""

import re
import shutil
import subprocess
from types import TracebackType
from typing import Protocol, Self

from recipes.chess.formats import MATE, ranked
from recipes.chess.position import Board, Position, fen_of
from recipes.chess.rules import (
    board_after,
    captures,
    ending,
    legal_moves,
    position_after,
)
from tasks.errors import GraftError

VALUES = {"P": 1, "N": 3, "B": 3, "R": 5, "Q": 9, "K": 0}
"""Pawns that a piece is worth."""

PLACES = ("/usr/games/stockfish", "/usr/local/bin/stockfish")
"""Where Stockfish is looked for, besides PATH: Debian's package is in a folder that is not in root's."""

_SCORE = re.compile(r" multipv (\d+) score (cp|mate) (-?\d+)(?: \w+bound)? .*? pv (\w+)")


class Engine(Protocol):
    """Evaluates the legal moves of positions."""

    @property
    def name(self) -> str:
        """Its name and version, as problems record it."""

    def evaluate(self, position: Position) -> dict[str, float]:
        """Pawns for the side to move of each legal move, the best first; {} if there is none."""


class MaterialEngine:
    """Material after a move and the reply that takes most; a mate at once is found, any other is not."""

    name = "two plies of material"

    def evaluate(self, position: Position) -> dict[str, float]:
        """Pawns for the side to move of each legal move, the best first; {} if there is none."""
        evaluations: dict[str, float] = {}
        for move in legal_moves(position):
            after = position_after(position, move)
            end = ending(after)
            if end is not None:
                evaluations[move.uci] = MATE - 0.01 if end == "checkmate" else 0.0
                continue
            balance = material(after.board, position.white)
            losses = (balance - material(board_after(after, reply), position.white) for reply in captures(after))
            evaluations[move.uci] = float(balance - max(losses, default=0))
        return ranked(evaluations)


class Stockfish:
    """The Stockfish program: one thread, a fixed number of nodes, and nothing remembered between positions.

    Raises GraftError if there is none, or it ends.
    """

    def __init__(self, nodes: int) -> None:
        program = next((found for place in ("stockfish", *PLACES) if (found := shutil.which(place))), None)
        if program is None:
            raise GraftError(
                "environment.engine: no program stockfish; install it (Debian: apt-get install stockfish), or set "
                "environment.engine to material"
            )
        self._nodes = nodes
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        lines = self._ask("uci", "uciok")
        version = next((line.removeprefix("id name ") for line in lines if line.startswith("id name ")), "Stockfish")
        self.name = f"{version}, {nodes} nodes"
        for option, value in (("Threads", 1), ("Hash", 16), ("MultiPV", 256)):
            self._send(f"setoption name {option} value {value}")

    def evaluate(self, position: Position) -> dict[str, float]:
        """Pawns for the side to move of each legal move, the best first; {} if there is none."""
        moves = {move.uci for move in legal_moves(position)}
        if not moves:
            return {}
        self._send("ucinewgame")
        self._ask("isready", "readyok")
        self._send(f"position fen {fen_of(position)}")
        found: dict[str, float] = {}
        for line in self._ask(f"go nodes {self._nodes}", "bestmove"):
            if score := _SCORE.search(line):
                found[score[4]] = _pawns(score[2], int(score[3]))
        if set(found) != moves:
            raise GraftError(
                f"environment.nodes: {self._nodes} are too few for {len(moves)} moves of {fen_of(position)}; raise them"
            )
        return ranked(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise GraftError(f"environment.engine: stockfish ended before {line!r}; try: stockfish bench") from None

    def _ask(self, line: str, end: str) -> list[str]:
        """The lines of an answer, up to the one that begins with `end`."""
        self._send(line)
        assert self._process.stdout is not None
        lines: list[str] = []
        for read in self._process.stdout:
            lines.append(read.rstrip("\n"))
            if read.startswith(end):
                return lines
        raise GraftError(f"environment.engine: stockfish ended over {line!r}; try: stockfish bench")


def material(board: Board, white: bool) -> int:
    """Pawns that one side is ahead."""
    return sum(VALUES[piece.upper()] * (1 if piece.isupper() == white else -1) for piece in board.values())


def _pawns(kind: str, score: int) -> float:
    """As python-chess' `score(mate_score=100000) / 100`."""
    if kind == "cp":
        return score / 100
    return (100_000 - score if score > 0 else -100_000 - score) / 100
