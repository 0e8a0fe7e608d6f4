"""The benchmark of the claims: its runs have valid params, and the old table has all of its claims."""

import math

import pytest

from benchmarks.claims.__main__ import CLAIMS, differences, old_numbers, runs_of, verdict
from benchmarks.claims.variants import COMPLETIONS, SAMPLES, TASKS, VARIANTS, Run
from benchmarks.support.short_runs import params_of


def test_each_claim_compares_runs_whose_params_are_valid() -> None:
    wanted = runs_of("civil", 0, quick=True)
    assert {own for pair in CLAIMS.values() for own in pair} == {(run.algorithm, run.variant) for run in wanted[1:]}
    for run in wanted:
        params = params_of(run.assignments)
        influence = params.influence
        validation = influence.n * influence.completions if influence.is_held_out else 0
        assert params.rounds.last == 3
        assert params.search.samples == params.search.simulations == params.update.group_size
        if run.variant and params.search.samples == SAMPLES:
            assert 0 <= COMPLETIONS - validation - (params.search.problems or 0) * SAMPLES < SAMPLES


@pytest.mark.parametrize("task", TASKS)
def test_all_variants_are_runs_of_both_algorithms_in_each_task(task: str) -> None:
    wanted = runs_of(task, 0, quick=False)
    assert len(wanted) == len({run.digest for run in wanted}) == 1 + 2 * len(VARIANTS)
    params_of(wanted[0].assignments)


@pytest.mark.parametrize("sentence", CLAIMS)
def test_the_old_table_has_each_claim_in_each_task(sentence: str) -> None:
    assert len(old_numbers(sentence)) == len(TASKS)


def test_a_verdict_is_by_the_interval_and_of_one_seed_by_the_sign() -> None:
    assert [verdict(mean, 0.1) for mean in (0.2, 0.05, -0.05, -0.2)] == [
        *("holds", "not confirmed", "not confirmed", "contradicted"),
    ]
    assert [verdict(mean, math.inf) for mean in (0.2, -0.0)] == ["positive", "negative"]


def test_a_difference_is_of_the_seeds_that_have_both_runs() -> None:
    sentence = "A value function is what GRPO lacks"
    runs = {seed: [Run("chess", *own, seed) for own in CLAIMS[sentence]] for seed in (0, 1)}
    results = {runs[0][0]: {"score": 0.5}, runs[0][1]: {"score": 0.25}, runs[1][0]: {"score": 0.5}}
    assert differences(sentence, results, "chess", [0, 1]) == [0.25]
    assert differences(sentence, results, "civil", [0, 1]) == []
