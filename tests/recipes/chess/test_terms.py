"""Rewards: the canonical completion earns the most there is, and a change of one character earns less."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.chess.formats import CANDIDATES, canonical_analysis, ranked, read_evaluation
from recipes.chess.terms import TERMS, is_analysis, is_right, measures, similarity
from tasks.records.problems import Problem
from tests.recipes.chess.conftest import writer, written

WEIGHTS = {"best": 0.5, "candidates": 0.3, "evaluations": 0.2, "format": 0.3, "content": 0.7}
EVERY = [
    problem
    for notation in ("fen", "list")
    for split in written(writer(notation=notation), test=24).values()
    for problem in split
]
CHARACTERS = "abcdefghKQRBNPkqrbnp0123456789.-+/:ME w"


def reward(problem: Problem, text: str) -> float:
    return sum(weight * TERMS[name](problem, text, []) for name, weight in WEIGHTS.items())


@pytest.mark.parametrize("problem", EVERY[::9], ids=lambda problem: f"{problem.problem_id}-{problem.question[3:6]}")
def test_the_canonical_completion_earns_all_there_is(problem: Problem) -> None:
    answer = str(problem.answer)
    own = {"best", "candidates", "evaluations"} if is_analysis(problem) else {"format", "content"}
    assert {name: term(problem, answer, []) for name, term in TERMS.items()} == {
        name: float(name in own) for name in TERMS
    }
    assert reward(problem, answer) == pytest.approx(1.0)
    assert reward(problem, f"  {answer.replace(' ', '   ')}\n") == reward(problem, answer)
    assert is_right(problem, writer().parse(answer))


@given(problem=st.sampled_from(EVERY), data=st.data())
def test_one_other_character_earns_less(problem: Problem, data: st.DataObject) -> None:
    answer = str(problem.answer)
    place = data.draw(st.integers(0, len(answer) - 1))
    character = data.draw(st.sampled_from([c for c in CHARACTERS if c != answer[place]]))
    kind = data.draw(st.sampled_from(["replaced", "inserted", "removed"]))
    rest = answer[place + (kind != "inserted") :]
    changed = answer[:place] + ("" if kind == "removed" else character) + rest
    same = " ".join(changed.split()) == answer
    assert (reward(problem, changed) == reward(problem, answer)) if same else reward(problem, changed) < 1 - 1e-9
    for term in TERMS.values():
        assert 0 <= term(problem, changed, []) <= term(problem, answer, [])


POSITION = Problem(
    problem_id="p", evaluator="text", source="test", question="P: 8/P7/8/8/8/2k5/8/K7 w - - 0 1 ", answer="",
    fields={"analysis": {"a7a8q": 9.0, "a7a8r": 5.0, "a7a8b": 3.0, "a7a8n": 3.0, "a1b1": 1.0, "a1a2": 0.5}},
)  # fmt: skip
CANONICAL = "M: a7a8q a7a8r a7a8b a7a8n a1b1 E: 9.0 5.0 3.0 3.0 1.0 B: a7a8q"


@pytest.mark.parametrize(("text", "best", "candidates", "evaluations"), [
    (CANONICAL, 1.0, 1.0, 1.0),
    (CANONICAL.replace("B: a7a8q", "B: a7a8r"), 0.8, 1.0, 1.0),  # promotions are moves of five characters
    (CANONICAL.replace("B: a7a8q", "B: a7a8"), 0.0, 1.0, 1.0),
    (CANONICAL.replace("B: a7a8q", "B: a7a8n"), 0.6, 1.0, 1.0),  # two are better: third, with another one
    (CANONICAL.replace("B: a7a8q", "B: a1a2"), 0.1, 1.0, 1.0),
    (CANONICAL.replace("B: a7a8q", "B: a1a8"), 0.0, 1.0, 1.0),  # illegal
    (CANONICAL.replace("a1b1", "a1a2"), 1.0, 0.8, 0.9),  # legal, not among the first five, judged half a pawn wrong
    (CANONICAL.replace("a1b1", "a1h8"), 1.0, 0.8, 0.8),
    (CANONICAL.replace("a1b1", "a7a8q"), 1.0, 0.8, 0.8),  # twice the same, with the evaluation of another
    (CANONICAL.replace("9.0", "9.00"), 1.0, 1.0, 0.8),  # no number as Python prints one
    (CANONICAL.replace("9.0", "7.5"), 1.0, 1.0, 0.8),
    (CANONICAL.replace("9.0", "8.75"), 1.0, 1.0, 0.95),
    (CANONICAL.replace(" 1.0 B", " B"), 1.0, 1.0, 0.0),  # counts differ
    ("M: a7a8q E: 9.0 B: a7a8q", 1.0, 0.2, 0.2),  # fewer candidates than there are
    (f"{CANONICAL} M: a1a2", 0.0, 0.0, 0.0), ("M: a7a8q a7a8r", 0.0, 0.0, 0.0), (CANONICAL[:-7], 0.0, 0.0, 0.0),
    ("", 0.0, 0.0, 0.0), ("a7a8q", 0.0, 0.0, 0.0), ("M:  E:  B: ", 0.0, 0.0, 0.0),
])  # fmt: skip
def test_promoted_illegal_malformed_and_cut_analyses(
    text: str, best: float, candidates: float, evaluations: float
) -> None:
    found = [TERMS[name](POSITION, text, []) for name in ("best", "candidates", "evaluations")]
    assert found == [pytest.approx(best), pytest.approx(candidates), pytest.approx(evaluations)]


def test_an_equally_good_move_earns_nearly_as_much_and_is_right() -> None:
    evaluations = {f"a1a{n}": 1.0 for n in range(2, 9)}
    problem = POSITION.model_copy(update={"fields": {"analysis": evaluations}})
    text = canonical_analysis(ranked(evaluations), Random(0))
    other = text.replace("B: a1a2", "B: a1a8")
    assert (TERMS["best"](problem, text, []), TERMS["best"](problem, other, [])) == (1.0, 0.95)
    assert is_right(problem, "a1a8")
    assert not is_right(problem, "a1b1")
    swapped = text.replace("a1a3", "a1a7")
    assert TERMS["candidates"](problem, swapped, []) == pytest.approx(1 - 0.05 / CANDIDATES)
    assert measures(problem, swapped)["p_top5_overlap"] == 1.0


TRANSITION = Problem(
    problem_id="a",
    evaluator="text",
    source="test",
    question="A: Kg6 Rf1 kh8 w+f1f8+f1f8+",
    answer="Kg6 Rf8 kh8 b+1.0+1+0",
)


@pytest.mark.parametrize(("text", "form", "content"), [
    ("Kg6 Rf8 kh8 b+1.0+1+0", 1.0, 1.0),
    ("Kg6 Rf8 kh8 b+0.5+1+0", 1.0, (1 + 2 / 3) / 6), ("Kg6 Rf8 kh8 b+1+1+0", 0.75, (1 + 2 / 3) / 6),
    ("Kg6 Rf7 kh8 b+1.0+1+0", 1.0, (1 + 12 / 13) / 6), ("Kg6 Rf9 kh8 b+1.0+1+0", 0.75, (1 + 12 / 13) / 6),
    ("Kg6 Rf8 kh8 b+1.0+1+true", 0.75, (1 + 2 / 3) / 6), ("Kg6 Rf8 kh8 b+1.0+1", 0.0, 0.0), ("", 0.0, 0.0),
    ("Kg6 Rf8 kh8 b+1.0+1+0+", 0.0, 0.0), (CANONICAL, 0.0, 0.0),
])  # fmt: skip
def test_wrong_malformed_and_cut_transitions(text: str, form: float, content: float) -> None:
    assert TERMS["format"](TRANSITION, text, []) == form
    assert TERMS["content"](TRANSITION, text, []) == pytest.approx(content)


def test_a_problem_without_its_analysis_has_no_score() -> None:
    """A term that raises makes the reward failed, which is never 0: tasks/reward/compute.py."""
    for fields in ({}, {"analysis": {}}, {"analysis": 3}):
        broken = POSITION.model_copy(update={"fields": fields})
        for name in ("best", "candidates", "evaluations"):
            with pytest.raises((KeyError, TypeError)):
                TERMS[name](broken, CANONICAL, [])
    with pytest.raises(ValueError, match="the answer is no completion of A"):
        TERMS["content"](TRANSITION.model_copy(update={"answer": "?"}), str(TRANSITION.answer), [])


def test_measures() -> None:
    assert measures(POSITION, CANONICAL.replace("a1b1", "a1h8")) == {
        "p_legal": pytest.approx(5 / 6), "p_best_move": 1.0, "p_top5_overlap": 0.8, "p_malformed": 0.0,
        "p_evaluation_error": 0.0,
    }  # fmt: skip
    assert measures(POSITION, CANONICAL.replace("9.0", "999.99"))["p_evaluation_error"] == 2.0  # of at most 10 pawns
    assert measures(POSITION, "?") == {"p_legal": 0, "p_best_move": 0, "p_top5_overlap": 0, "p_malformed": 1}
    wrong = measures(TRANSITION, "Kg6 Rf8 kh8 w+1.0+0+0")
    assert (wrong["a_exact"], wrong["a_lenient"], wrong["a_similarity"]) == (0.0, 0.0, pytest.approx(12 / 13))
    assert (wrong["a_reward_right"], wrong["a_terminated_right"], wrong["a_truncated_right"]) == (1.0, 0.0, 1.0)
    assert measures(TRANSITION, "Kg6 Rf8 kh8 w")["a_invalid"] == 1.0
    fen = "8/8/8/8/8/2k5/8/K1N5 b - - 0 9+0.5+1+0"
    clocks = TRANSITION.model_copy(update={"answer": fen})
    other = measures(clocks, fen.replace(" 0 9", " 1 10"))
    assert (other["a_exact"], other["a_lenient"]) == (0.0, 1.0)


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_similarity_is_symmetric_and_1_only_for_equal_texts(text: str, other: str) -> None:
    assert similarity(text, other) == similarity(other, text)
    assert (similarity(text, other) == 1) == (text == other)
    assert 0 <= similarity(text, other) <= 1


def test_evaluations_are_written_as_python_prints_them() -> None:
    assert [read_evaluation(text) for text in ("0.0", "-0.5", "999.99")] == [0, -0.5, 999.99]
    for text in ("-0.0", "1", "1.", ".5", "1.50", "01.5", "+1.5", "1e3", "nan", "inf", "1.5 ", "١.٠"):
        assert read_evaluation(text) is None
