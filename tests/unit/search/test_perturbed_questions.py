"""Laws of the perturbed questions: as many quantities, of the same kinds, each with another value."""

import re
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from tasks.programs.operators.builtin import MAX_TEXT, numbers, read_quantities
from tasks.search.answer_support import TEXTS, perturb_question

WHOLE = st.integers(0, 10**9).map(str) | st.integers(1000, 10**7).map("{:,}".format)
MONEY = st.integers(1, 10**5).map(lambda cents: f"${cents / 100:.2f}")
PERCENT = st.integers(1, 250).map(lambda n: f"{n}%") | st.sampled_from(["seven percent", "12.5%", "20 percent", ".5%"])
SPELLED = ["two", "forty-two", "three hundred and five", "two and a half", "half", "two thirds", "twice", "double"]
MIXED = ["a quarter of", "a dozen", "two dozen", "5 million", "1.5 million", "3/4", "1 1/2", "0.75", ".05", "7kg", "2½"]
WORDS = st.sampled_from([*SPELLED, *MIXED])
OTHERS = st.sampled_from(["pens,", "A4", "the 3rd of", "How many?", "one", "5."])
QUESTIONS = st.lists(WHOLE | MONEY | PERCENT | WORDS | OTHERS).map(" ".join)


@given(question=QUESTIONS, problem_id=st.text(max_size=3))
def test_a_perturbed_question_reads_as_the_question_with_other_quantities(question: str, problem_id: str) -> None:
    values, _, between = read_quantities(question)
    texts = perturb_question(question, problem_id)
    assert len(set(texts)) == len(texts) <= TEXTS
    assert perturb_question(question, problem_id) == texts
    assert bool(texts) == bool(values)
    for text in texts:
        assert read_quantities(text)[2] == between
        assert len(numbers(text)) == len(values)
        assert not any(map(isclose, numbers(text), values))


@given(question=QUESTIONS)
def test_each_quantity_keeps_its_kind(question: str) -> None:
    values, written, _ = read_quantities(question)
    for text in perturb_question(question, "p"):
        for old, was, new, now in zip(values, written, *read_quantities(text)[:2], strict=True):
            assert re.findall("%|percent", was) == re.findall("%|percent", now)
            assert new < 1 or not 0 < old < 1
            assert new > 0
            if isinstance(old, int):
                assert isinstance(new, int)
            if re.fullmatch(r"[0-9,]*\.[0-9]+", was):
                assert len(now.partition(".")[2]) == len(was.partition(".")[2])


def test_quantities_depend_on_the_problem_and_texts_that_are_too_long_are_left_out() -> None:
    question = "Ann has 48 pens and gives 17 away."
    assert perturb_question(question, "a") != perturb_question(question, "b")
    assert len(perturb_question(question, "a")) == TEXTS
    words = "half " * (MAX_TEXT // 5)
    assert len(numbers(words)) == MAX_TEXT // 5
    assert max(map(len, perturb_question(words, "p")), default=0) <= MAX_TEXT
