"""Laws of siblings with the same answer: paraphrases, and contexts with other orders and distractors."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.problems.jsonl import Reader
from tasks.problems.variants import Paragraph, QuestionParts, mixed, variants_of
from tasks.programs.operators.builtin import context, with_context, without_context
from tasks.records.problems import Problem

TITLES = ["Arthur's Magazine", "First for Women", "Radio City", "Peterloo", "Pigs", "Esma", "Gerald R Ford", "Betty"]
SUPPORTING = TITLES[:2]
HOTPOT = {
    "_id": "5a7a06935542990198eaf050",
    "question": "Which magazine was started first, Arthur's Magazine or First for Women?",
    "answer": "Arthur's Magazine",
    "type": "comparison",
    "level": "medium",
    "supporting_facts": [["Arthur's Magazine", 0], ["First for Women", 0]],
    "context": [[title, [f"{title} began in {1844 + place}.", " It is known."]] for place, title in enumerate(TITLES)],
}
HUB = {
    **{name: value for name, value in HOTPOT.items() if name not in ("_id", "context", "supporting_facts")},
    "id": HOTPOT["_id"],
    "supporting_facts": {"title": SUPPORTING, "sent_id": [0, 0]},
    "context": {"title": TITLES, "sentences": [body for _, body in HOTPOT["context"]]},
}  # fmt: skip

TEXT = st.text("abc de", min_size=1, max_size=6).map(str.strip).filter(bool)
PARTS = st.builds(
    QuestionParts,
    TEXT,
    st.lists(TEXT, max_size=3),
    st.lists(st.builds(Paragraph, TEXT, st.booleans()), max_size=6, unique_by=lambda paragraph: paragraph.text),
)


def read(*rows: Any, siblings: int = 6, evaluator: str = "format") -> list[Problem]:
    return Reader(evaluator, siblings=siblings).read("data.jsonl", "\n".join(map(json.dumps, rows)), "data.jsonl")


@settings(max_examples=60)
@given(parts=PARTS, count=st.integers(0, 8))
def test_variants_are_distinct_ask_the_same_and_keep_what_the_answer_needs(parts: QuestionParts, count: int) -> None:
    found = variants_of(parts, count)
    assert len(found) <= count
    assert len({*found, with_context(parts.context, parts.question)}) == len(found) + 1
    assert variants_of(parts, count + 3)[: len(found)] == found == variants_of(parts, count)
    texts = {paragraph.text: paragraph for paragraph in parts.paragraphs}
    distractors = sum(paragraph.is_distractor for paragraph in parts.paragraphs)
    for text in found:
        assert without_context(text) in (parts.question, *parts.paraphrases)
        shown = context(text).split("\n\n") if context(text) else []
        assert len(set(shown)) == len(shown)
        assert {name for name, each in texts.items() if not each.is_distractor} <= set(shown) <= texts.keys()
        assert 2 * sum(texts[name].is_distractor for name in shown) >= distractors
    assert sorted(map(str, mixed(parts.paragraphs, parts.question))) == sorted(map(str, parts.paragraphs))


def test_every_paraphrase_is_asked_before_any_twice_and_there_are_no_more_than_differ() -> None:
    parts = QuestionParts("Where?", ["In which city?", "What is the place?", "Where?"])
    assert sorted(variants_of(parts, 16)) == ["In which city?", "What is the place?"]
    assert len(variants_of(parts, 1)) == 1
    with_paragraphs = QuestionParts(parts.question, parts.paraphrases, [Paragraph("one"), Paragraph("two")])
    asked = [without_context(text) for text in variants_of(with_paragraphs, 3)]
    assert {"In which city?", "What is the place?"} <= {*asked}
    assert variants_of(QuestionParts("q", [], [Paragraph("one"), Paragraph("two")]), 16) == [
        "two\n\none\n\nQuestion: q"
    ]
    assert variants_of(QuestionParts("q", [], [Paragraph("one")]), 16) == variants_of(QuestionParts("q"), 16) == []


@pytest.mark.parametrize("row", [HOTPOT, HUB], ids=["published", "hub"])
def test_siblings_of_hotpot_keep_the_supporting_paragraphs_and_the_answer(row: dict[str, Any]) -> None:
    (problem,) = read(row)
    (alone,) = read(row, siblings=0)
    assert alone == problem.model_copy(update={"siblings": []})
    assert len(problem.siblings) == 6
    assert not problem.answers_vary
    orders, sizes = set(), set()
    for sibling in problem.siblings:
        titles = [paragraph.partition(":")[0] for paragraph in context(sibling.question).split("\n\n")]
        assert {*SUPPORTING} <= {*titles} <= {*TITLES}
        assert len(titles) >= 2 + 3
        assert (sibling.answer, sibling.fields) == ("Arthur's Magazine", problem.fields)
        orders.add(tuple(titles))
        sizes.add(len(titles))
    assert (len(orders), len(sizes) > 1) == (6, True)
    assert problem.rotated(3).fields["supporting_facts"] == row["supporting_facts"]
    assert Problem.model_validate_json(problem.model_dump_json()) == problem


@pytest.mark.parametrize("facts", [[], [["No such title", 0]], {}, {"title": [], "sent_id": []}])
def test_where_no_supporting_paragraph_is_known_only_the_order_changes(facts: Any) -> None:
    (problem,) = read({**HOTPOT, "supporting_facts": facts})
    for question in problem.questions:
        assert sorted(context(question).split("\n\n")) == sorted(context(problem.question).split("\n\n"))
    assert len(problem.siblings) == 6


def test_a_line_of_ones_own_has_paraphrases_paragraphs_and_distractors() -> None:
    row = {
        "question": "Of France?",
        "answer": ["Paris"],
        "paraphrases": ["French capital?"],
        "context": ["Paris governs France.", "It has done so since 987."],
        "distractor_contexts": ["Rome is older.", "Bern has bears."],
        "hops": 2,
    }
    (problem,) = read(row, evaluator="text")
    (again,) = read({**row, "hops": 3, "distractor_contexts": None}, evaluator="text")
    assert problem.fields == {"hops": 2}
    assert {*context(problem.question).split("\n\n")} == {*row["context"], *row["distractor_contexts"]}  # type: ignore[misc]
    assert context(again.question) == "\n\n".join(row["context"])  # type: ignore[arg-type]
    assert {*row["context"]} <= {*context(problem.siblings[0].question).split("\n\n")}  # type: ignore[misc]
    assert {without_context(question) for question in problem.questions} == {"Of France?", "French capital?"}
    (one,) = read({"question": "q", "answer": "Rome", "context": "Line.\n\nLine two."}, evaluator="text")
    assert (context(one.question), one.siblings) == ("Line.\n\nLine two.", [])
    (kept,) = read({"question": "q", "answer": "Rome", "distractor_contexts": ["no context"]}, evaluator="text")
    assert (kept.question, kept.fields) == ("q", {"distractor_contexts": ["no context"]})
    (sums,) = read({"question": "2 and 3?", "answer": "#### 5", "paraphrases": ["Add 2 to 3."]})
    assert (sums.questions, sums.numbers, sums.answers_vary) == (("2 and 3?", "Add 2 to 3."), [5, 5], False)


def test_a_line_with_siblings_has_these_alone() -> None:
    row = {"question": "Of France?", "answer": "Paris", "paraphrases": ["French capital?"], "context": ["a", "b"]}
    (problem,) = read({**row, "siblings": [{"question": "Of Italy?", "answer": "Rome"}]}, evaluator="text")
    assert problem.questions == ("a\n\nb\n\nQuestion: Of France?", "a\n\nb\n\nQuestion: Of Italy?")
    assert problem.answers_vary


BASE = {"question": "q", "answer": 5}


def test_a_question_that_a_sibling_asks_is_no_other_problem() -> None:
    rows = [{**BASE, "paraphrases": ["r"]}, {"question": "r", "answer": 5}]
    with pytest.raises(GraftError, match=r"^data\.jsonl:2: line 1 asks the same; remove one of the two"):
        read(*rows)
    with pytest.raises(GraftError, match=r"^data\.jsonl:2: line 1 asks the same"):
        read(*reversed(rows))
    assert len(read(*rows, siblings=0)) == 2
