"""The benchmark of selection: conditions, steps and figures are what their names say."""

import math
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.influence_selection.equal_quantities import with_equal_quantities
from benchmarks.influence_selection.training_run import RunResult, steps_of, successes
from benchmarks.influence_selection.variants import ALL, CHOSEN, FULL, GROUP, LEAST, PLAN, PROBLEMS, VARIANTS
from benchmarks.influence_selection.world import FLIPPED, LONG, Condition, Rollout, is_flipped, rewards_of
from benchmarks.selection import Runs, figures, jobs, table
from tasks.model.sample import Sample
from tasks.problems.generate import generate_splits
from tasks.programs.operators.builtin import numbers
from tasks.records import Completion, Problem

pytestmark = pytest.mark.nightly


def problem(number: int) -> Problem:
    return Problem(problem_id=f"p{number}", question="?", answer=1, source="generated")


def rollout(right: bool, trusted: bool, share: float, tokens: int = 5) -> Rollout:
    return Rollout(Completion(tokens=[1] * tokens, logprobs=[-1.0] * tokens), right, trusted, share)


def test_each_condition_rewards_what_it_says() -> None:
    group = [rollout(True, True, 1.0), rollout(True, False, 0.5), rollout(False, False, 0.0, tokens=LONG)]
    group += [rollout(False, False, 0.0)] * (GROUP - 3)
    rewards = {condition: rewards_of(condition, [problem(0)], [group], 0, 0)[0] for condition in get_args(Condition)}
    assert rewards["clean"][:4] == [1.0, 0.5, 0.0, 0.0]
    assert rewards["answer_only"][:4] == [1.0, 1.0, 0.0, 0.0]
    assert rewards["biased"][:4] == [1.0, 0.5, 1.0, 0.0]
    flips = [is_flipped(problem(0), member, 0, 0) for member in range(GROUP)]
    assert rewards["flipped"] == [float(r.trusted != flip) for r, flip in zip(group, flips, strict=True)]


def test_so_many_rewards_are_flipped_and_others_in_each_round() -> None:
    flips = [[is_flipped(problem(n), m, 0, round) for n in range(200) for m in range(GROUP)] for round in (0, 1)]
    for own in flips:
        assert sum(own) / len(own) == pytest.approx(FLIPPED, abs=0.04)
    assert flips[0] != flips[1]


def sample(number: int, advantage: float) -> Sample:
    return Sample(f"p{number // 3}", number, (1,), (2, number), (-1.0, -1.0), advantage)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 5))
def test_every_sample_is_in_one_step_and_steps_are_of_like_size(samples: int, count: int, seed: int) -> None:
    kept = [sample(number, 1.0) for number in range(samples)]
    steps = steps_of(kept, count, seed)
    assert sorted(s.member for step in steps for s in step.samples) == list(range(samples))
    assert len(steps) == min(count, samples)
    assert {len(step.samples) for step in steps} <= {samples // len(steps), math.ceil(samples / len(steps))}


def test_only_successes_are_learned_from() -> None:
    assert [successes(sample(0, advantage)).advantage for advantage in (0.5, 0.0, -0.5)] == [0.5, 0.0, 0.0]


def runs_of(finals: dict[tuple[str, bool, str], float]) -> Runs:
    names = [(condition, False, name) for condition in get_args(Condition) for name in VARIANTS]
    names += [("flipped", True, name) for name in LEAST]
    return {
        key: [RunResult(finals.get(key, 0.2) + seed / 100, [0.1, 0.2], 10, [0.5], 1.0) for seed in range(2)]
        for key in names
    }


def test_figures_are_differences_and_shares_of_the_chosen_selection() -> None:
    runs = runs_of(
        {
            ("clean", False, CHOSEN): 0.25,
            ("answer_only", False, "oracle drop"): 0.30,
            ("answer_only", False, CHOSEN): 0.28,
            ("biased", False, "oracle drop"): 0.31,
            ("biased", False, CHOSEN): 0.30,
            ("flipped", False, CHOSEN): 0.26,
            ("flipped", True, CHOSEN): 0.21,
        }
    )
    for one in runs["flipped", True, CHOSEN]:
        one.steps = 5
    found = figures(runs, {128: [0.7, 0.8], 1024: [0.9]})
    assert found == {
        "clean_gain": 0.05,
        "flipped_auc_128": 0.75,
        "flipped_auc_1024": 0.9,
        "flipped_gain": 0.06,
        "flipped_gain_4_epochs": 0.01,
        "flipped_step_share": 0.5,
        "answer_only_gap": 0.1,
        "answer_only_recovered": 0.8,
        "biased_lost": 0.11,
        "biased_gap_to_oracle": 0.01,
    }
    assert table("clean", False, runs).row_count == len(VARIANTS)
    assert table("flipped", True, runs).row_count == len(LEAST)


def test_a_condition_that_costs_nothing_is_no_trial() -> None:
    found = figures(runs_of({}), {})
    assert found["answer_only_recovered"] is None
    assert found["biased_gap_to_oracle"] is None


def test_what_the_figures_need_is_run_in_each_condition() -> None:
    planned = jobs({7: Path("seven")}, 3)
    keys = {(job.condition, job.by_kept, job.name) for job in planned}
    assert keys == {(*where, name) for where, names in PLAN.items() for name in names}
    assert len(keys) == len(planned)
    assert {(c, b, name) for c, b in PLAN for name in LEAST[:2]} <= keys
    assert {(c, False, "oracle drop") for c in ("flipped", "answer_only", "biased")} <= keys
    assert {name for condition, by_kept, name in keys if condition == "flipped" and not by_kept} == set(VARIANTS)
    assert all(job.variant == ALL[job.name] and job.problems == PROBLEMS for job in planned)


def test_the_full_size_has_every_variant_in_each_condition() -> None:
    planned = jobs({7: Path("seven")}, 6, 200, FULL)
    assert {(job.condition, job.by_kept, job.name) for job in planned} == {(*where, n) for where in PLAN for n in FULL}
    assert {job.problems for job in planned} == {200}


@pytest.mark.parametrize("problems", [PROBLEMS, 200])
@pytest.mark.parametrize("name", ALL)
def test_every_variant_has_the_same_number_of_completions(name: str, problems: int) -> None:
    variant = ALL[name]
    count, group = variant.training(problems)
    left = problems * GROUP + 1024 - (count * group + (variant.judges or 0))
    assert 0 <= left < count if problems == 200 else left == 0


def test_stories_of_equal_quantities_have_their_problem_as_a_sibling() -> None:
    generated = generate_splits({"train": 40}, 1, 2, 0.0, 5, 4)["train"]
    found = [(one, with_equal_quantities(one, 1, 5)) for one in generated]
    assert sum(other is not None for _, other in found) >= 30
    for one, other in found:
        if other is None:
            continue
        quantities = numbers(other.question)
        assert len(set(quantities)) < len(quantities)
        assert other.answer not in quantities
        assert (other.problem_id, other.siblings[0].question) == (one.problem_id, one.question)
        assert other == with_equal_quantities(one, 1, 5)
