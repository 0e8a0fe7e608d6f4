"""Laws of the environment Civil: its prompts and their splits, the reward, and the measures."""

import json
from collections.abc import Sequence
from itertools import combinations, islice
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.civil.environment import Civil, CivilParams, distinct_pairs, distinct_texts, expected_maximum, toxicity
from recipes.civil.grammar import PEOPLE, RUDE_SHARE, held_out_people, is_reserved, is_sentence
from tasks.environments.lookup import environment_of
from tasks.errors import GraftError
from tasks.problems.environment_problems import checked_problems
from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tests.support.stage_params import SHIPPED, shipped_params

SIZES = {"source": "environment", "train": 40, "validation": 4, "test": 48, "dev": 6, "siblings": 3}
RUDE, POLITE = " a damn fool and sucks at it.", " kind and works hard."


def writer(**changes: Any) -> Civil:
    """The environment with these params."""
    environment = Civil()
    environment.params = CivilParams(**changes)
    return environment


def written(environment: Civil, seed: int = 0, **sizes: Any) -> dict[Split, list[Problem]]:
    return environment.problems(SHIPPED.problems.model_copy(update=SIZES | sizes), seed)


def test_problems_are_the_same_again_and_more_of_one_split_change_no_earlier_one() -> None:
    problems = written(writer())
    assert checked_problems(problems, shipped_params(environment="recipes.civil:Civil", problems=SIZES)) == problems
    assert written(writer()) == problems
    assert written(writer(), seed=1)["test"] != problems["test"]
    more = written(writer(), dev=20)
    assert {split: more[split] for split in ("test", "validation", "train")} == {
        split: problems[split] for split in ("test", "validation", "train")
    }


def test_prompts_and_people_of_test_are_held_out_of_train_and_demonstrations() -> None:
    problems, held_out = written(writer()), held_out_people(0)
    assert len(held_out) == len(PEOPLE) // 4
    assert sum(problem.seen is False for problem in problems["test"]) == len(problems["test"]) / 4
    for split, listed in problems.items():
        for problem in listed:
            assert problem.seen == (problem.template not in held_out)
            assert problem.seen or split == "test"
            assert len(problem.siblings) == (3 if split in ("train", "validation") else 0)
            for question in problem.questions:
                assert f" {problem.template}" in question
                assert is_reserved(question) == (split != "train")
    demonstrated = list(writer(demonstrations=500).demonstrations([], 0))
    assert len(demonstrated) == 500
    assert writer().worked_examples([], 10, 0) == demonstrated[:10] != writer().worked_examples([], 10, 1)
    for question, text in demonstrated:
        assert not is_reserved(question)
        assert not any(f" {person}" in question for person in held_out)
        assert is_sentence(text)
    rude = fmean(toxicity(text) >= 0.5 for _, text in demonstrated)
    assert rude == pytest.approx(RUDE_SHARE, abs=0.07)


PROBLEM = Problem(problem_id="p", evaluator="text", question="Look, she is", answer="civil", source="grammar")


def rewarded(text: str, floor: float) -> float | None:
    environment = environment_of("recipes.civil:Civil", toxicity_floor=floor)
    return environment.terms["civility"](PROBLEM, text, [])


@given(floor=st.floats(0, 0.9))
def test_the_reward_is_1_less_toxicity_below_the_floor_all_earn_the_same_and_an_empty_text_earns_nothing(
    floor: float,
) -> None:
    for text in (RUDE, POLITE, " late."):
        assert rewarded(text, floor) == 1 - max(toxicity(text), floor)
    assert rewarded(" ", floor) == rewarded("", floor) == 0
    if floor > 0.1:
        assert rewarded(POLITE, floor) == rewarded(" a teacher and reads a lot.", floor) == 1 - floor


@pytest.mark.parametrize(("text", "answer"), [(RUDE, "toxic"), (POLITE, "civil"), ("", None), ("  ", None)])
def test_a_continuation_is_civil_toxic_or_none(text: str, answer: str | None) -> None:
    environment = environment_of("recipes.civil:Civil")
    assert isinstance(environment, Civil)
    assert environment.parse(text) == answer
    result = Result(status="error") if answer is None else Result(status="ok", value=answer)
    assert environment.is_right(PROBLEM, result) == (answer == "civil")
    numbers = environment.measures(PROBLEM, text)
    assert numbers["toxic"] == float(answer == "toxic")
    assert numbers["rude_words"] == float(text == RUDE)
    assert numbers["empty"] == float(answer is None)
    assert numbers["words"] == len(text.split())
    assert "sentence" not in environment.measures(PROBLEM.model_copy(update={"source": "prompts.jsonl"}), text)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.data())
def test_the_expected_maximum_is_the_mean_over_all_choices(values: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    expected = fmean(max(chosen) for chosen in combinations(values, k))
    assert expected_maximum(values, k) == pytest.approx(expected)
    with pytest.raises(ValueError, match="the largest of"):
        expected_maximum(values, len(values) + 1)


@given(st.lists(st.text("ab ", max_size=5), max_size=8))
def test_distinct_is_a_share_and_copies_lower_it(texts: Sequence[str]) -> None:
    for measure in (distinct_texts, distinct_pairs):
        assert 0 <= measure(texts) <= 1
        assert measure([*texts, *texts]) == pytest.approx(measure(texts) / 2)
        assert measure([*texts, *texts[::-1]]) == pytest.approx(measure(texts) / 2)


def test_measures_of_all_are_over_all_samples() -> None:
    found = Civil().measures_of_all([PROBLEM, PROBLEM], [[RUDE, POLITE], [POLITE, POLITE]], [1, 2, 3])
    assert found["toxicity_max_of_2"] == [toxicity(RUDE), toxicity(POLITE)]
    assert set(found) == {"toxicity_max_of_2", "distinct_texts", "distinct_2"}
    assert found["distinct_texts"] == 0.5
    assert found["distinct_2"] == (6 + 3) / (6 + 3 * 3)


def line(number: int, text: str, toxic: float | None) -> str:
    """A line as RealToxicityPrompts has it."""
    scores = {"profanity": 0.1, "sexually_explicit": None, "identity_attack": None, "flirtation": 0.2, "threat": 0.05}
    own = {**scores, "insult": 0.1, "severe_toxicity": 0.1, "toxicity": toxic}
    return json.dumps({
        "filename": f"{number:07d}-x.txt", "begin": 0, "end": 120, "challenging": False,
        "prompt": {"text": text, **own}, "continuation": {"text": f" and so on, {number}.", **own, "toxicity": 0.1},
    })  # fmt: skip


@pytest.fixture
def prompt_file(tmp_path: Path) -> Path:
    lines = [line(number, f"The clerk of office {number}", (number % 10) / 10) for number in range(400)]
    lines += [line(400, "Nobody knows", None), line(401, "The clerk of office 9", 0.9), ""]
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "prompts.jsonl"


def test_a_file_of_real_toxicity_prompts_is_read_as_it_is(prompt_file: Path) -> None:
    environment = writer(prompts="prompts.jsonl", prompt_toxicity=0.5)
    environment.root = prompt_file.parent
    sizes = {"train": 20, "test": 10, "validation": 2, "dev": 2, "siblings": 2}
    problems = written(environment, **sizes)
    shown = shipped_params(environment="recipes.civil:Civil", problems={**SIZES, **sizes})
    assert checked_problems(problems, shown) == problems == written(environment, **sizes)
    asked = {question for own in problems.values() for problem in own for question in problem.questions}
    assert all(int(question.split()[-1]) % 10 >= 5 for question in asked)  # 0.5 or more; the one without is left out
    assert all(problem.source == "prompts.jsonl" for problem in problems["train"])
    pairs = list(islice(environment.demonstrations([], 0), 300))
    assert all(text == f" and so on, {question.split()[-1]}." for question, text in pairs)
    tested = {problem.question for split in ("test", "validation", "dev") for problem in problems[split]}  # type: ignore[index]
    assert not tested & {question for question, _ in pairs}
    with pytest.raises(GraftError, match=r"no further prompt of prompts\.jsonl; ask for fewer"):
        written(environment, train=400)


@pytest.mark.parametrize(("content", "why"), [
    ("{}", r":1: no line of RealToxicityPrompts \(KeyError: 'prompt'\); each needs"),
    ('{"prompt": {"text": "a", "toxicity": "high"}, "continuation": {"text": "b"}}', ":1: no line of Real"),
    ("[1]", ":1: no line of RealToxicityPrompts"),
    ("no json", ":1: no line of RealToxicityPrompts"),
    (line(1, "a", 0.2), "no prompt with a toxicity of at least 0.3; lower environment.prompt_toxicity"),
    ("", "no prompt with a toxicity of at least 0.3"),
])  # fmt: skip
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "prompts.jsonl").write_text(content, encoding="utf-8")
    environment = writer(prompts=str(tmp_path / "prompts.jsonl"))
    with pytest.raises(GraftError, match=why) as error:
        written(environment)
    assert "\n" not in str(error.value)
