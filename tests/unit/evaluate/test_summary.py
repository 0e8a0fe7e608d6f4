from itertools import combinations
from pathlib import Path
from statistics import fmean

import pytest

from tasks.evaluate.summary import answers_at_k, problem_outcome, remarks, summarise
from tasks.params.file import load_params
from tasks.records.evaluation import Attempt, ProblemOutcome
from tasks.records.problems import Problem
from tasks.records.programs import Result, Status
from tasks.statistics.pass_at_k import maj_at_k

PARAMS = load_params(Path(__file__).parents[3] / "params.yaml").evaluation
PROBLEM = Problem(problem_id="p", question="?", answer=1, source="test", template="t", seen=False, operations=3)


def attempt(
    samples: int, right: bool = False, status: Status = "ok", greedy: bool = False, passed: bool | None = None,
    value: float | str | None = None, cut: int = 0,
) -> Attempt:  # fmt: skip
    counts = {"greedy": greedy, "samples": samples, "right": right, "siblings_passed": passed, "cut": cut}
    return Attempt(problem_id="p", code="c", result=Result(status=status, value=value), **counts)


def outcome(number: int, seen: bool | None = True, siblings_passed: bool | None = True) -> ProblemOutcome:
    """`number` of 20 samples are right; greedy is right from 10 on."""
    return ProblemOutcome(
        problem_id=f"p{number}", template="t", seen=seen, greedy=number >= 10, siblings_passed=siblings_passed,
        samples=20, correct=number, invalid=1, timeouts=2, distinct=5, wrong=[max(17 - number, 0) // 2] * 2,
    )  # fmt: skip


def test_an_outcome_counts_samples_not_attempts() -> None:
    attempts = [
        attempt(0, right=True, greedy=True, passed=True), attempt(9, right=True, value=1.0),
        attempt(2, value=0.1 + 0.2, cut=1), attempt(1, value=7), attempt(1, value="0.3"), attempt(1),
        attempt(1, value="no"),
        attempt(2, status="error", cut=2), attempt(2, status="memory"), attempt(1, status="timeout"),
    ]  # fmt: skip
    assert problem_outcome(PROBLEM, attempts) == ProblemOutcome(
        problem_id="p", template="t", seen=False, greedy=True, siblings_passed=True, samples=20, correct=9, invalid=4,
        timeouts=1, distinct=9, wrong=[3, 1, 1], operations=3, cut=3,
    )  # fmt: skip


def test_new_compositions_and_new_phrasings_have_numbers_of_their_own() -> None:
    novelties = (None, "phrasing", "composition", "composition")
    kinds = [{"seen": novelty is None, "novelty": novelty} for novelty in novelties]
    outcomes = [outcome(n).model_copy(update=kind) for n, kind in zip((10, 9, 9, 10), kinds, strict=True)]
    numbers = summarise(outcomes, PARAMS, seed=0)
    assert numbers["pass_at_1_greedy_new_phrasing"] == 0
    assert numbers["pass_at_1_greedy_new_composition"] == 0.5
    assert numbers["pass_at_1_greedy_unseen"] == pytest.approx(1 / 3)
    problem = PROBLEM.model_copy(update={"novelty": "phrasing"})
    assert problem_outcome(problem, [attempt(1, greedy=True)]).novelty == "phrasing"


def test_the_numbers_of_an_evaluation() -> None:
    outcomes = [outcome(n, seen=n % 2 == 0, siblings_passed=n >= 15) for n in range(21)]
    numbers = summarise(outcomes, PARAMS, seed=0)
    assert numbers["problems"] == 21
    assert numbers["pass_at_1_greedy"] == pytest.approx(11 / 21)
    assert numbers["pass_at_1_greedy_seen"] == pytest.approx(6 / 11)
    assert numbers["pass_at_1_greedy_unseen"] == pytest.approx(5 / 10)
    assert numbers["siblings_passed"] == pytest.approx(6 / 21)
    assert "pass_at_1_greedy_new_phrasing" not in numbers  # known of the grammar of events alone
    assert numbers["sampled_mean"] == 0.5
    assert numbers["pass_at_1"] == pytest.approx(0.5)
    assert (numbers["invalid"], numbers["timeouts"], numbers["distinct"]) == (0.05, 0.1, 5)
    assert numbers["pass_at_1"] < numbers["pass_at_5"] < numbers["pass_at_10"]
    assert "maj_at_1" not in numbers
    assert numbers["maj_at_10"] == pytest.approx(fmean(maj_at_k(20, o.correct, o.wrong, 10) for o in outcomes))
    assert 0 < numbers["answers_at_1"] <= 0.95  # some samples give none
    assert numbers["answers_at_1"] < numbers["answers_at_5"] < numbers["answers_at_10"] < 3
    back = summarise(outcomes[::-1], PARAMS, seed=0)
    for name in ("pass_at_1_greedy", "pass_at_1", "pass_at_10"):
        assert numbers[name] == pytest.approx(back[name])
    for name in ("pass_at_1_greedy", "pass_at_1", "pass_at_5", "pass_at_10", "maj_at_10", "siblings_passed"):
        assert numbers[f"{name}_low"] < numbers[name] < numbers[f"{name}_high"]


def test_unknown_numbers_are_absent_and_names_fit_every_store() -> None:
    names = summarise([outcome(n, seen=None, siblings_passed=None) for n in range(21)], PARAMS, seed=0)
    assert not [name for name in names if "seen" in name or "siblings" in name or "operations" in name]
    assert all(name.replace("_", "").isalnum() for name in summarise([outcome(n) for n in range(21)], PARAMS, seed=0))


def test_answers_at_k_is_the_mean_over_all_draws() -> None:
    own = outcome(2).model_copy(update={"samples": 6, "wrong": [2, 1]})
    draws = list(combinations("RRWWV-", 3))
    assert answers_at_k(own, 3) == pytest.approx(fmean(len({*draw} - {"-"}) for draw in draws))


def test_a_remark_says_when_all_samples_of_each_problem_are_alike() -> None:
    alike = [outcome(20 * (n % 3 == 0)) for n in range(9)]
    (remark,) = remarks(summarise(alike, PARAMS, seed=0), PARAMS.ks)
    assert remark.startswith("pass@10 is pass@1 (0.333): all samples of a problem are right or all are wrong")
    for others in ([*alike, outcome(19)], alike[:1], alike[1:3]):  # one differs; all is right; nothing is
        assert remarks(summarise(others, PARAMS, seed=0), PARAMS.ks) == []
    assert remarks(summarise(alike, PARAMS.model_copy(update={"ks": [1]}), seed=0), [1]) == []
