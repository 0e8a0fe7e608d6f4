"""The rules: against python-chess, and in named positions."""

import pytest

from recipes.chess.formats import canonical_transition
from recipes.chess.generator import START, mirrored
from recipes.chess.position import Position, fen_of, list_of, read_fen, read_list
from recipes.chess.rules import ending, is_possible, legal_moves, read_move
from tests.support.chess_rules import differences


def read(fen: str) -> Position:
    position = read_fen(fen)
    assert position is not None
    return position


def test_positions_of_random_games_are_as_python_chess_has_them() -> None:
    pytest.importorskip("chess")
    assert differences(600, seed=7) == []


@pytest.mark.parametrize(("fen", "how"), [
    ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "checkmate"), ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "stalemate"),
    ("8/8/4k3/8/8/2KB4/8/8 w - - 0 1", "insufficient material"),
    ("8/8/4k3/8/8/2KN4/8/8 b - - 9 9", "insufficient material"),
    ("8/8/3bk3/8/8/2KB4/8/8 w - - 0 1", None), ("8/8/2b1k3/8/8/2KB4/8/8 w - - 0 1", "insufficient material"),
    ("8/8/4k3/8/8/2KR4/8/8 w - - 150 99", "75 moves"), ("8/8/4k3/8/8/2KR4/8/8 w - - 149 99", None), (START, None),
])  # fmt: skip
def test_how_a_game_ends(fen: str, how: str | None) -> None:
    assert ending(read(fen)) == how


@pytest.mark.parametrize("text", [
    "", "8/8/8/8/8/8/8/8", f"{START} 1", START.replace(" w ", " x "), START.replace("KQkq", "QK"),
    START.replace("8/8", "44/8"), START.replace("PPPPPPPP", "PPPPPPPPP"), START.replace("rnbq", "xnbq"),
    START.replace(" 0 1", " -1 1"), START.replace(" - ", " e4 "), START.replace("KQkq", ""),
])  # fmt: skip
def test_what_is_no_fen(text: str) -> None:
    assert read_fen(text) is None


@pytest.mark.parametrize(("rank_5", "rank_6", "rank_7", "square", "is_position"), [
    ("3pP3", "8", "8", "d6", True), ("4P3", "8", "8", "d6", False), ("3PP3", "8", "8", "d6", False),
    ("3nP3", "8", "8", "d6", False), ("3pP3", "3n4", "8", "d6", False), ("3pP3", "8", "3q4", "d6", False),
    ("3pP3", "8", "8", "d3", False), ("3pP3", "8", "8", "e6", False), ("3p4", "8", "8", "d6", True),
])  # fmt: skip
def test_an_en_passant_square_is_one_that_an_enemy_pawn_has_passed(
    rank_5: str, rank_6: str, rank_7: str, square: str, is_position: bool
) -> None:
    fen = f"7k/{rank_7}/{rank_6}/{rank_5}/8/8/8/K7 w - {square} 0 9"
    assert (read_fen(fen) is not None) == is_position
    placement = "/".join(rank.swapcase() for rank in fen.split()[0].split("/")[::-1])
    mirror = f"{placement} b - {square[0]}{9 - int(square[1])} 0 9"
    assert (read_fen(mirror) is not None) == is_position
    for position in (read_fen(fen), read_fen(mirror)):
        assert position is None or len(legal_moves(position)) >= 3


@pytest.mark.parametrize("text", ["", "w", "Kg8", "Kg8 w b", "Kg9 w", "Kg8 Qg8 w", "kg8  w", "Xg8 w", "Kg8 x"])
def test_what_is_no_list_of_pieces(text: str) -> None:
    assert read_list(text) is None


def test_a_position_is_the_same_in_both_notations_and_mirrored_twice() -> None:
    position = read("8/8/4k3/8/8/2KR4/6p1/8 b - - 0 1")
    assert list_of(position) == "Kc3 Rd3 ke6 pg2 b"
    assert read_list(list_of(position)) == position
    assert mirrored(mirrored(position)) == position
    assert fen_of(mirrored(position)) == "8/6P1/2kr4/8/8/4K3/8/8 w - - 0 1"
    assert not is_possible(read("8/8/4k3/8/8/2KR4/6p1/6p1 w - - 0 1"))
    assert not is_possible(read("8/8/4k3/4K3/8/8/8/8 w - - 0 1"))
    assert not is_possible(read("8/8/8/4K3/8/8/8/8 w - - 0 1"))


@pytest.mark.parametrize(("fen", "move", "text"), [
    (START, "e2e4", "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1+0.001+0+0"),
    (START, "e2e5", f"{START}+-1.0+0+1"), (START, "e7e5", f"{START}+-1.0+0+1"), (START, "e2", f"{START}+-1.0+0+1"),
    ("8/4P3/8/8/8/2k5/8/2K5 w - - 3 9", "e7e8n", "4N3/8/8/8/8/2k5/8/2K5 b - - 0 9+0.5+1+0"),
    ("8/4P3/8/8/8/2k5/8/2K5 w - - 3 9", "e7e8", "8/4P3/8/8/8/2k5/8/2K5 w - - 3 9+-1.0+0+1"),
    ("8/4P3/8/8/8/2k5/8/2K5 w - - 3 9", "e7e8k", "8/4P3/8/8/8/2k5/8/2K5 w - - 3 9+-1.0+0+1"),
    ("7k/8/6K1/8/8/8/8/5R2 w - - 3 9", "f1f8", "5R1k/8/6K1/8/8/8/8/8 b - - 4 9+1.0+1+0"),
    ("rnbqkbnr/ppp1pppp/8/8/3p4/8/PPPPPPPP/RNBQKBNR w KQkq - 0 3", "e2e4",
     "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3+0.001+0+0"),
])  # fmt: skip
def test_the_completions_of_a(fen: str, move: str, text: str) -> None:
    assert canonical_transition(read(fen), move, "fen") == text


def test_what_is_no_move() -> None:
    assert [read_move(text) for text in ("", "e2", "e2e9", "e7e8x", "e7e8qq", "e7e8 ")] == [None] * 6
