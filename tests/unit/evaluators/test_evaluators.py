"""The built-in evaluators: a table of tricky cases, the reference implementations, and laws."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.evaluators import drop, expression, f1, text
from tasks.evaluators.number import Value
from tasks.evaluators.scores import BUILT_IN, score, wanted
from tasks.params.sections import BY_FORMAT, EVALUATORS
from tasks.records.problems import Answer
from tests.support.evaluator_cases import CASES
from tests.support.records import question_of

REFERENCE = json.loads((Path(__file__).parent / "reference_verdicts.json").read_text(encoding="utf-8"))
"""(value, accepted answers or spans, exact match, F1) of generated pairs, as the evaluation scripts in the package
allennlp-models 2.10.1 give them: allennlp_models/rc/tools/squad.py and drop.py, which are the official ones."""


@pytest.mark.parametrize(("name", "value", "answer", "expected"), CASES)
def test_tricky_cases(name: str, value: Value, answer: Answer, expected: float) -> None:
    problem = question_of("?", BUILT_IN[name].parse(answer), evaluator=name)
    assert score(problem, value) == pytest.approx(expected)


def test_there_are_cases_of_every_evaluator_and_params_name_them_all() -> None:
    assert Counter(name for name, *_ in CASES).keys() == {*BUILT_IN} == {*EVALUATORS} - {BY_FORMAT}
    assert len(CASES) >= 60


def test_exact_match_and_f1_are_squads() -> None:
    for value, accepted, exact, overlap in REFERENCE["squad"]:
        assert text.score(value, accepted) == exact, (value, accepted)
        assert f1.score(value, accepted) == pytest.approx(overlap), (value, accepted)
    assert 50 < sum(exact for _, _, exact, _ in REFERENCE["squad"]) < 250


def test_f1_of_spans_is_drops() -> None:
    for given_spans, expected, _, overlap in REFERENCE["drop"]:
        assert round(drop.spans_f1(given_spans, expected), 2) == pytest.approx(overlap), (given_spans, expected)
    assert len({overlap for *_, overlap in REFERENCE["drop"]}) > 15


WORDS = st.text(st.sampled_from("ab é.-'1 \n\\{}"), max_size=12)


@settings(max_examples=60)
@given(value=st.one_of(WORDS, st.integers(), st.floats(allow_nan=False, allow_infinity=False)), answer=WORDS)
def test_scores_are_in_the_unit_interval_and_an_answer_is_right_for_itself(value: Value, answer: str) -> None:
    for name in ("text", "f1", "drop", "choice", "number"):
        try:
            parsed = BUILT_IN[name].parse(answer)
        except ValueError:
            continue
        assert 0 <= BUILT_IN[name].score(value, parsed) <= 1
        assert BUILT_IN[name].score(answer, parsed) == 1 or (name == "drop" and "\n" in answer)


@pytest.mark.parametrize(("name", "answer"), [
    *((name, bad) for name in BUILT_IN for bad in (True, {"a": 1})), ("number", "5 apples"), ("number", "72%"),
    ("text", []), ("text", "The."), ("text", [["a"]]), ("choice", "AB"), ("choice", 1), ("expression", " "),
    ("expression", []), ("drop", [[]]), ("drop", {"number": "", "spans": [], "date": {}}),
])  # fmt: skip
def test_an_answer_that_an_evaluator_cannot_check_is_refused(name: str, answer: Answer) -> None:
    with pytest.raises(ValueError, match=r"\w") as error:
        BUILT_IN[name].parse(answer)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("piece", ["answer ", "answer: ", "(", "a-", "\\boxed{", "the 1 ", " \n", "*"])
def test_long_texts_take_no_longer_than_their_length(piece: str) -> None:
    """100,000 characters are scored at all: a pattern that backtracks would not come to an end."""
    long = piece * (100_000 // len(piece))
    for name in ("text", "choice", "f1", "number"):
        assert BUILT_IN[name].score(long, BUILT_IN[name].parse("5" if name == "number" else "B")) == 0
    assert expression.score(long, "5") == 0


OWN = '''"""Answers within a tolerance that the line names."""


class Near:
    def parse(self, answer):
        return float(answer)

    def score(self, problem, value):
        return max(0.0, 1 - abs(float(value) - problem.answer) / problem.fields["tolerance"])
'''


def test_a_users_evaluator_reads_the_fields_and_its_errors_are_one_line(tmp_path: Path) -> None:
    from tasks.sources.user_modules import digest_modules

    (tmp_path / "near_answers.py").write_text(OWN)
    digest = digest_modules(tmp_path, ["near_answers"])
    problem = question_of(
        "?", 10.0, evaluator="near_answers:Near", evaluator_sha256=digest, fields={"tolerance": 4, "unit": "m"}
    )
    assert [score(problem, value, tmp_path) for value in (10, "9", 20)] == [1, 0.75, 0]
    for changed, value, complaint in (
        ({}, "ten", "near_answers:Near: score of 'ten' for problem p: ValueError: could not convert"),
        ({"fields": {"tolerance": -1}}, 11, "near_answers:Near: score is 2.0, not from 0 to 1; fix it"),
        (
            {"evaluator_sha256": "0"},
            11,
            "near_answers is not the one that the problems were read with; graft",
        ),
        ({"evaluator": "near_answers:Far"}, 11, "near_answers:Far: .* no attribute 'Far'; name a class"),
    ):
        with pytest.raises(GraftError, match=f"^problems.evaluator.*{complaint}") as error:
            score(problem.model_copy(update=changed), value, tmp_path)
        assert "\n" not in str(error.value)
    assert wanted("near_answers:Near") == "the answer"
