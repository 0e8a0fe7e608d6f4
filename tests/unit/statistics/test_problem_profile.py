"""Profiles of problems, and the drift of others from them."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from flows.contract import compare
from tasks.records.problems import Problem
from tasks.statistics.problem_profile import Drift, drift, kind_of_problem, profile_of
from tests.support.stage_params import REPOSITORY, SHIPPED

SHARED = REPOSITORY.parent / "shared/data"

questions = st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=30)


def problems_of(texts: Sequence[str], **fields: object) -> list[Problem]:
    shown = {"answer": 1, "source": "a.jsonl", **fields}
    return [Problem(problem_id=f"p{i}", question=text, **shown) for i, text in enumerate(texts)]


@given(questions, questions, st.randoms())
def test_drift_is_from_0_to_1_and_depends_on_no_order(these: list[str], others: list[str], random) -> None:  # type: ignore[no-untyped-def]
    profile = profile_of(problems_of(these))
    found = drift(profile, problems_of(others))
    assert all(0 <= distance <= 1 for distance in found)
    random.shuffle(these)
    assert profile_of(problems_of(these)).model_dump_json() == profile.model_dump_json()
    assert drift(profile, problems_of(these)).vocabulary == pytest.approx(0, abs=1e-6)


def test_no_word_in_common_is_1_and_no_words_at_all_are_like_no_words() -> None:
    words, numbers = (profile_of(problems_of([text])) for text in ("one two", "1 + 2"))
    assert drift(words, problems_of(["three four"])) == Drift(length=1, vocabulary=pytest.approx(1))
    assert drift(words, problems_of(["1 + 2 = 3"])).vocabulary == 1
    assert drift(numbers, problems_of(["3 + 4"])) == Drift(0, 0)


def test_the_distance_of_lengths_is_that_of_all_lengths_to_a_hundredth() -> None:
    random = np.random.default_rng(0)
    for shift in (0, 5, 30):
        first, second = random.poisson(60, 1000) + 1, random.poisson(60 + shift, 700) + 1
        profile = profile_of(problems_of(["x" * length for length in first]))
        found = drift(profile, problems_of(["x" * length for length in second])).length
        assert found == pytest.approx(ks_2samp(first, second).statistic, abs=0.011)


def test_answers_of_another_kind_are_named_from_a_tenth() -> None:
    profile, contract = profile_of(problems_of(["How many?"] * 100)), SHIPPED.machine.contract
    decimals = problems_of(["How many?"] * 2, answer=0.5)
    assert list(compare(profile, [*problems_of(["How many?"] * 18), *decimals], contract)) == []
    (breach,) = compare(profile, [*problems_of(["How many?"] * 17), *decimals], contract)
    assert breach == "2 of 19 new answers are of kinds that the champion did not learn: number: decimals"
    assert kind_of_problem(problems_of(["Where?"], answer="Rome", evaluator="text")[0]) == "text: texts"
    assert kind_of_problem(problems_of(["Where?"], answer=[2, 3], evaluator="near:Near")[0]) == "near:Near"


@pytest.mark.skipif(not SHARED.exists(), reason="GSM8K and HumanEval are not here")
def test_the_shipped_thresholds_tell_real_data_from_other_real_data() -> None:
    """All figures: docs/results/2026-11-28-contract.md."""
    lines = (SHARED / "gsm8k/train.jsonl").read_text().splitlines()
    mathematics = problems_of([json.loads(line)["question"] for line in lines])
    code = [json.loads(line)["prompt"] for line in (SHARED / "humaneval/HumanEval.jsonl").read_text().splitlines()]
    contract, random = SHIPPED.machine.contract, np.random.default_rng(0)
    for size in (100, 300, 1000) * 3:
        chosen = [mathematics[place] for place in random.permutation(len(mathematics))[: 2 * size]]
        assert list(compare(profile_of(chosen[:size]), chosen[size:], contract)) == []
    found = list(compare(profile_of(mathematics[:100]), problems_of(code), contract))
    assert [line.split()[0] for line in found] == ["length", "vocabulary"]
