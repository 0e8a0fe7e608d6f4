"""The problems and demonstrations that RookWorld writes."""

import shutil

import pytest

from recipes.chess.engines import MaterialEngine, Stockfish
from recipes.chess.formats import read_analysis, read_state, read_transition
from recipes.chess.generator import MATERIALS, held_out_materials, is_reserved
from recipes.chess.position import Position, read_fen
from recipes.chess.rules import legal_moves
from recipes.chess.terms import evaluations_of, is_analysis
from tasks.errors import GraftError
from tasks.problems.environment_problems import checked_problems
from tasks.records.problems import Problem, Split
from tests.recipes.chess.conftest import SIZES, writer, written
from tests.support.stage_params import shipped_params


def position_of(question: str) -> Position:
    position = read_state(question[3:].split("+")[0].strip())
    assert position is not None
    return position


def test_problems_are_the_same_again_and_more_of_one_split_change_no_earlier_one(
    problems: dict[Split, list[Problem]],
) -> None:
    notation = "fen" if "/" in problems["test"][0].question else "list"
    environment = writer(notation=notation)
    assert written(environment) == problems
    assert written(environment, seed=1)["test"] != problems["test"]
    more = written(environment, dev=8)
    assert {split: more[split] for split in ("test", "validation", "train")} == {
        split: problems[split] for split in ("test", "validation", "train")
    }


def test_siblings_are_fresh_positions_of_the_same_material_in_train_and_validation(
    problems: dict[Split, list[Problem]],
) -> None:
    assert checked_problems(problems, shipped_params(environment="recipes.chess:RookWorld", problems=SIZES)) == problems
    for split, listed in problems.items():
        for problem in listed:
            assert len(problem.siblings) == (2 if split in ("train", "validation") else 0)
            material = str(problem.template)[2:]
            for question in problem.questions:
                position = position_of(question)
                found = "".join(sorted(position.board.values()))
                assert found in ("".join(sorted(material)), "".join(sorted(material.swapcase())))
                assert is_reserved(position) == (split != "train")
            assert problem.rotated(1).question == problem.questions[1] if problem.siblings else True


def test_tasks_take_turns_and_unseen_materials_are_in_test_alone(problems: dict[Split, list[Problem]]) -> None:
    held_out = held_out_materials(0)
    assert len(held_out) == len(MATERIALS) // 4
    for split, listed in problems.items():
        assert [is_analysis(problem) for problem in listed[:4]] == [True, False, True, False]
        for problem in listed:
            assert (str(problem.template)[2:] in held_out) == (problem.seen is False)
            assert problem.seen or split == "test"
    for task in (True, False):
        own = [problem.seen for problem in problems["test"] if is_analysis(problem) == task]
        assert own.count(False) == len(own) / 4


def test_the_analysis_has_every_legal_move_and_the_canonical_completion_its_best(
    problems: dict[Split, list[Problem]],
) -> None:
    for problem in (problem for listed in problems.values() for problem in listed if is_analysis(problem)):
        evaluations, analysis = evaluations_of(problem), read_analysis(str(problem.answer))
        assert analysis is not None
        assert sorted(evaluations) == [move.uci for move in legal_moves(position_of(problem.question))]
        assert list(evaluations.values()) == sorted(evaluations.values(), reverse=True)
        assert sorted(analysis.moves) == sorted(list(evaluations)[:5])
        assert [float(text) for text in analysis.evaluations] == [evaluations[move] for move in analysis.moves]
        assert analysis.best == next(iter(evaluations))
        assert problem.source == "generated; two plies of material"


def test_one_task_alone_and_games_with_their_last_moves() -> None:
    assert all(is_analysis(problem) for problem in written(writer(tasks=["P"]), train=1, test=4)["test"])
    games = written(writer(tasks=["A"], positions="games"), train=1, validation=1, test=4, dev=0, siblings=0)
    assert {problem.template for problem in games["test"]} == {"A game"}
    for problem in games["test"]:
        state, move, history, rest = problem.question.removeprefix("A: ").split("+")
        assert (read_fen(state) is not None, rest) == (True, "")
        assert history.split(" ")[-1] == move
        assert len(history.split(" ")) <= 10


def test_demonstrations_are_canonical_but_for_their_share_of_random_analyses() -> None:
    canonical, mixed = (
        list(writer(random_share=share, demonstrations=60).demonstrations([], 3)) for share in (0.0, 0.5)
    )
    assert [question for question, _ in canonical] == [question for question, _ in mixed]
    engine, changed = MaterialEngine(), 0
    for (question, text), (_, other) in zip(canonical, mixed, strict=True):
        position = position_of(question)
        assert not is_reserved(position)
        if question.startswith("A: "):
            assert text == other
            assert read_transition(text) is not None
            continue
        evaluations = engine.evaluate(position)
        best, given = read_analysis(text), read_analysis(other)
        assert best is not None
        assert given is not None
        assert best.best == next(iter(evaluations))
        assert set(given.moves) <= set(evaluations)
        assert [float(number) for number in given.evaluations] == [evaluations[move] for move in given.moves]
        assert given.best in given.moves
        changed += text != other
    assert 8 <= changed <= 24
    assert list(writer(random_share=0.0, demonstrations=10).demonstrations([], 3)) == canonical[:10]
    assert writer(random_share=0.0).worked_examples([], 10, 3) == canonical[:10]


def test_a_task_may_have_its_own_temperature() -> None:
    plain, own = written(writer()), written(writer(temperature={"P": 0.5}))
    for split, problems in own.items():
        assert [problem.temperature for problem in problems] == [0.5 if is_analysis(p) else None for p in problems]
        assert [problem.model_copy(update={"temperature": None}) for problem in problems] == plain[split]
        assert "temperature" not in plain[split][0].model_dump_json()
        assert [problem.rotated(1).temperature for problem in problems] == [problem.temperature for problem in problems]
    with pytest.raises(ValueError, match="names A, which is none of environment"):
        writer(tasks=["P"], temperature={"A": 0.9})


@pytest.mark.parametrize(("fen", "best", "evaluation"), [
    ("7k/8/6K1/8/8/8/8/5R2 w - - 0 1", "f1f8", 999.99),
    ("8/8/8/3q4/4P3/8/8/K6k w - - 0 1", "e4d5", 1.0),  # the queen is taken, and nothing takes back
    ("8/4k3/3q4/8/8/8/3R4/K7 w - - 0 1", "d2d6", 0.0),  # the king takes back
    ("7k/5Q2/8/8/8/8/8/K7 b - - 0 1", None, 0.0),
])  # fmt: skip
def test_two_plies_of_material(fen: str, best: str | None, evaluation: float) -> None:
    position = read_fen(fen)
    assert position is not None
    found = MaterialEngine().evaluate(position)
    assert (next(iter(found)), max(found.values())) == (best, evaluation) if best else found == {}


def test_without_stockfish_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(GraftError, match=r"apt-get install stockfish.*engine to material") as error:
        Stockfish(2000)
    assert "\n" not in str(error.value)
