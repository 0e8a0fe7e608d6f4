"""The benchmark of selection: conditions, variants, kept results and figures are what their names say."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from benchmarks.influence_selection.equal_quantities import with_equal_quantities
from benchmarks.influence_selection.figures import Runs, figures, table
from benchmarks.influence_selection.gradalign import aligned_problems, cosine
from benchmarks.influence_selection.results import digest_of, line_of, missing, read_results, result_of
from benchmarks.influence_selection.reward_corrections import (
    SLOPE,
    Vote,
    corrected,
    flip_rates,
    majority_rewards,
    refined_answer,
    refined_rewards,
    vote_of,
)
from benchmarks.influence_selection.training_run import Job, RunResult, steps_of
from benchmarks.influence_selection.variants import (
    ALL,
    ALONE,
    CHOSEN,
    COMPLETIONS,
    DECISIVE,
    FIGURES,
    GRADALIGN,
    INFLUENCE,
    METHODS,
    MIXED,
    NONE,
    ORACLE,
    PLAN,
    PROBLEMS,
    REPEATED,
    TRUSTED,
    sized,
)
from benchmarks.influence_selection.weights import successes
from benchmarks.influence_selection.world import ERRING, FLIPPED, LONG, Condition, Rollout, is_flipped, rewards_of
from benchmarks.influence_ways import Shape, plain, samples_of, scorer_of
from benchmarks.selection import RESULTS, jobs
from benchmarks.support.student_interval import interval
from benchmarks.support.workspace import PROJECT
from tasks.environments.word_problems.events.generate_events import generate_from_events
from tasks.environments.word_problems.generate import generate_splits
from tasks.errors import GraftError
from tasks.model.sample import Sample
from tasks.params.file import load_params
from tasks.programs.operators.builtin import numbers
from tasks.records import Completion, Problem

pytestmark = pytest.mark.nightly

GROUP = 8
PARAMS = load_params(PROJECT / "params.yaml")


def problem(number: int) -> Problem:
    return Problem(problem_id=f"p{number}", question="?", answer=1, source="generated")


def rollout(right: bool, trusted: bool, share: float, tokens: int = 5, answer: float | None = None) -> Rollout:
    return Rollout(Completion(tokens=[1] * tokens, logprobs=[-1.0] * tokens), right, trusted, share, answer)


def test_each_condition_rewards_what_it_says() -> None:
    group = [rollout(True, True, 1.0), rollout(True, False, 0.5), rollout(False, False, 0.0, tokens=LONG)]
    group += [rollout(False, False, 0.0)] * (GROUP - 3)
    rewards = {condition: rewards_of(condition, [problem(0)], [group], 0, 0)[0] for condition in get_args(Condition)}
    assert rewards["clean"][:4] == [1.0, 0.5, 0.0, 0.0]
    assert rewards["answer_only"][:4] == [1.0, 1.0, 0.0, 0.0]
    assert rewards["biased"][:4] == [1.0, 0.5, 1.0, 0.0]
    for condition, share in FLIPPED.items():
        flips = [is_flipped(problem(0), member, 0, 0, share) for member in range(GROUP)]
        assert rewards[condition] == [float(r.trusted != flip) for r, flip in zip(group, flips, strict=True)]
    assert set(ERRING) == set(get_args(Condition)) - {"clean"}


@pytest.mark.parametrize("share", FLIPPED.values())
def test_so_many_rewards_are_flipped_and_others_in_each_round(share: float) -> None:
    rows = [(problem(n), m) for n in range(200) for m in range(GROUP)]
    flips = [[is_flipped(one, m, 0, round, share) for one, m in rows] for round in (0, 1)]
    for own in flips:
        assert sum(own) / len(own) == pytest.approx(share, abs=0.04)
    assert flips[0] != flips[1]


def sample(number: int, advantage: float) -> Sample:
    return Sample(f"p{number // 3}", number, (1,), (2, number), (-1.0, -1.0), advantage)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 5))
def test_every_sample_is_in_one_step_with_all_of_its_problem(samples: int, count: int, seed: int) -> None:
    steps = steps_of([sample(number, 1.0) for number in range(samples)], count, seed)
    assert sorted(s.member for step in steps for s in step.samples) == list(range(samples))
    problems = math.ceil(samples / 3)
    assert len(steps) == min(count, problems)
    assert {len(step.groups) for step in steps} <= {problems // len(steps), math.ceil(problems / len(steps))}
    assert len({group.problem_id for step in steps for group in step.groups}) == problems


def test_only_successes_are_learned_from() -> None:
    assert [successes(sample(0, advantage)).advantage for advantage in (0.5, 0.0, -0.5)] == [0.5, 0.0, 0.0]


def test_selection_by_influence_is_positive_and_else_as_shipped() -> None:
    own = PARAMS.influence
    for trusted in TRUSTED:
        variant = ALL[sized(INFLUENCE, trusted)]
        given = (variant.rule, variant.similarity, variant.control, variant.mixed)
        assert given == ("positive", own.similarity, own.fdr_control, own.train_on_validation)


@given(st.lists(st.booleans(), min_size=4, max_size=40), st.sampled_from([(0.1, 0.3), (0.0, 0.0), (0.25, 0.5)]))
def test_corrected_rewards_have_the_true_rewards_as_their_mean(truths: list[bool], rates: tuple[float, float]) -> None:
    false, missed = rates
    [ones, zeros] = corrected([[1.0], [0.0]], rates)
    for truth in truths:
        one = 1 - missed if truth else false
        assert one * ones[0] + (1 - one) * zeros[0] == pytest.approx(float(truth))


def test_flip_rates_are_shares_of_the_wrong_and_of_the_right() -> None:
    assert flip_rates([1, 0, 0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]) == (0.25, 0.25)
    assert flip_rates([0.0, 0.0], [0.0, 0.0]) == (0.0, 0.0)
    assert corrected([[1.0, 0.0]], (0.5, 0.5)) == [[0.0, 0.0]]


def test_the_majority_is_the_most_frequent_answer() -> None:
    group = [rollout(False, False, 0.0, answer=answer) for answer in (3, 5, 5, None, 3.0, 5)]
    assert majority_rewards([group, [rollout(False, False, 0.0)]]) == [[0.0, 1.0, 1.0, 0.0, 0.0, 1.0], [0.0]]


def test_a_vote_is_the_single_most_frequent_answer_and_its_share() -> None:
    group = [rollout(False, False, 0.0, answer=answer) for answer in (3, 5, 5, None)]
    assert vote_of(group) == Vote(5, 0.5)
    assert vote_of(group[:2]) == Vote(None, 0.0) == vote_of(group[3:])


@pytest.mark.parametrize(
    ("votes", "refined"),
    [
        ([(5, 0.4), (5, 0.41 + SLOPE)], 5),
        ([(5, 0.4), (5, 0.39 + SLOPE)], None),  # grows too little
        ([(3, 0.2), (5, 0.6)], None),  # as often 3
        ([(3, 0.2), (5, 0.6), (5, 0.7)], 5),
        ([(5, 0.2), (5, 0.6), (3, 0.9)], None),  # not what it was most often
        ([(None, 0.0), (None, 0.0)], None),
        ([(5, 0.4)], None),
    ],
)
def test_an_answer_is_refined_where_its_majority_lasts_and_grows(
    votes: list[tuple[int | None, float]], refined: int | None
) -> None:
    passes = [Vote(answer, share) for answer, share in votes]
    assert refined_answer(passes) == refined
    group = [rollout(False, False, 0.0, answer=answer) for answer in (3, 5, None)]
    expected = [0.25, 0.0, 1.0] if refined is None else [0.0, 1.0, 0.0]
    assert refined_rewards([[0.25, 0.0, 1.0]], [group], [passes]) == [expected]


def test_gradalign_ranks_problems_by_the_cosine_of_their_gradient() -> None:
    shape = Shape(rows=12, tokens=40, rank=2, hidden=32, layers=1, vocabulary=64)
    scorer = scorer_of(shape)
    rows = [replace(s, problem_id=f"p{n // 3}", member=n) for n, s in enumerate(samples_of(shape, 0))]
    trusted = samples_of(shape, 1)
    found = aligned_problems(scorer, rows, trusted, 0.5)
    flat = torch.cat([part.flatten() for part in plain(scorer, trusted)])
    exact = {}
    for name in {s.problem_id for s in rows}:
        own = torch.cat([part.flatten() for part in plain(scorer, [s for s in rows if s.problem_id == name])])
        exact[name] = float(torch.nn.functional.cosine_similarity(own, flat, 0))
    assert list(found) == sorted(exact, key=lambda name: -exact[name])[:2]
    assert found == pytest.approx({name: exact[name] for name in found}, abs=1e-4)
    assert cosine({"a": flat}, {"a": -flat}) == pytest.approx(-1)
    silent = [replace(s, advantage=0.0) for s in trusted]
    assert found.keys() < aligned_problems(scorer, rows, silent, 0.5).keys() == exact.keys()


def runs_of(finals: dict[tuple[str, bool, str], float]) -> Runs:
    names = [(condition, False, name) for condition in get_args(Condition) for name in ALL]
    names += [("flipped", True, name) for name in (NONE, CHOSEN)]
    return {
        key: {seed: RunResult(finals.get(key, 0.2) + seed / 100, [0.1, 0.2], 10, [0.5], 1.0) for seed in range(2)}
        for key in names
    }


def test_figures_are_differences_and_shares() -> None:
    runs = runs_of(
        {
            ("clean", False, CHOSEN): 0.25,
            ("answer_only", False, ORACLE): 0.30,
            ("answer_only", False, CHOSEN): 0.28,
            ("biased", False, ORACLE): 0.31,
            ("biased", False, CHOSEN): 0.30,
            ("flipped", False, CHOSEN): 0.26,
            ("flipped", True, CHOSEN): 0.21,
            ("flipped", False, sized(INFLUENCE, 16)): 0.24,
            ("biased", False, sized(ALONE, 64)): 0.21,
        }
    )
    for one in runs["flipped", True, CHOSEN].values():
        one.steps = 5
    found, notes = figures(runs, {128: 0.75, 1024: 0.9}, [0, 1], {})
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
        "few_trusted_gain_over_trusted_alone": -0.01,
        "few_trusted_gain_over_none": 0.0,
        "gap_to_oracle_256": 0.11,
        "exact_speedup": None,
    }
    assert [note.split(":")[0] for note in notes] == ["exact_speedup"]
    assert table("biased", False, runs).row_count == len(ALL)
    assert table("flipped", True, runs).row_count == 2


def test_a_figure_without_its_runs_is_null_and_the_note_says_which() -> None:
    runs = {key: of for key, of in runs_of({}).items() if key != ("biased", False, sized(INFLUENCE, 64))}
    found, notes = figures(runs, {}, [0, 1], {})
    assert found["few_trusted_gain_over_none"] is None
    assert found["gap_to_oracle_256"] == 0
    assert f"few_trusted_gain_over_none: no run of {sized(INFLUENCE, 64)} with biased rewards for seeds 0, 1" in notes
    assert found["answer_only_recovered"] is found["biased_gap_to_oracle"] is None, "nothing to recover is no trial"
    assert figures(runs_of({}), {}, [0, 1, 2], {})[0] == dict.fromkeys(found)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9).filter(lambda x: max(x) - min(x) > 1e-6))
def test_the_interval_is_students(differences: list[float]) -> None:
    mean, half = interval(differences)
    expected = ttest_1samp(differences, 0).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((expected.low, expected.high), abs=1e-9)


def job(variant: str, condition: Condition = "flipped", **changes: object) -> Job:
    return replace(Job(Path("seven"), 7, condition, variant, ALL[variant], 2), **changes)  # type: ignore[arg-type]


def test_a_digest_is_of_what_determines_a_run() -> None:
    one = digest_of(job(NONE), PARAMS)
    assert one == digest_of(job(NONE, folder=Path("elsewhere"), name="renamed"), PARAMS)
    others = [job(NONE, seed=8), job(NONE, rounds=3), job(NONE, problems=32), job(NONE, by_kept=True)]
    others += [job(NONE, "biased"), job(NONE, "flipped_10"), job(ORACLE)]
    others += [replace(job(NONE), variant=replace(ALL[NONE], mixed=True)), job(REPEATED)]
    changed = PARAMS.model_copy(update={"bootstrap": PARAMS.bootstrap.model_copy(update={"epochs": 9})})
    digests = [one, digest_of(job(NONE), changed), *(digest_of(other, PARAMS) for other in others)]
    assert len(set(digests)) == len(digests)
    alone = sized(ALONE, 16)
    for name, condition in (
        (alone, "biased"),
        (alone, "answer_only"),
        ("majority", "biased"),
        ("first policy", "clean"),
    ):
        assert digest_of(job(name), PARAMS) == digest_of(job(name, condition), PARAMS), "no training reward is read"
    assert digest_of(job("majority"), PARAMS) != digest_of(job("majority", "answer_only"), PARAMS), "other problems"


def test_kept_results_are_read_again_and_only_what_is_missing_is_run(tmp_path: Path) -> None:
    keep = tmp_path / "results.jsonl"
    assert read_results(keep) == {}
    planned = [job(NONE), job(ORACLE), job(sized(ALONE, 16)), job(sized(ALONE, 16), "biased")]
    digests = [digest_of(one, PARAMS) for one in planned]
    result = result_of(planned[1], digests[1], RunResult(0.25, [0.1], 64, [0.5], 12.0))
    keep.write_text(line_of(result))
    known = read_results(keep)
    assert known == {digests[1]: result}
    assert missing(planned, digests, known) == [(planned[0], digests[0]), (planned[2], digests[2])]
    keep.write_text(line_of(result) + "{}\n")
    with pytest.raises(GraftError, match=r"results\.jsonl, line 2: not a result .*; remove the line"):
        read_results(keep)


def test_the_kept_file_is_readable_and_of_variants_that_there_are() -> None:
    for result in read_results(RESULTS).values():
        assert json.loads(line_of(result))["digest"] == result.digest
        assert result.variant in ALL
        assert 0 <= result.metrics.final <= 1


def test_what_the_figures_need_is_planned() -> None:
    planned = jobs({7: Path("seven")}, 2)
    keys = [(job.condition, job.by_kept, job.name) for job in planned]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {(*where, name) for where, names in PLAN.items() for name in names}
    assert {(*where, name) for where, names in FIGURES.items() for name in names} <= set(keys)
    assert {(condition, False, name) for condition in ERRING for name in METHODS} <= set(keys)
    few = jobs({7: Path("seven"), 8: Path("eight")}, 2, conditions=["biased"], variants=DECISIVE)
    assert [(job.seed, job.condition) for job in few] == [(seed, "biased") for seed in (7, 8) for _ in DECISIVE]
    assert {job.name for job in few} == set(DECISIVE)
    both = jobs({7: Path("seven")}, 2, conditions=["flipped"], variants=[NONE, ORACLE])
    assert {(job.name, job.by_kept) for job in both} == {(NONE, False), (ORACLE, False), (NONE, True)}
    wanted = {sized(name, trusted) for name in (INFLUENCE, MIXED, ALONE, GRADALIGN) for trusted in (16, 64, 256)}
    assert set(DECISIVE) == {"first policy", NONE, ORACLE, *wanted}


@pytest.mark.parametrize("name", ALL)
def test_every_variant_has_nearly_the_same_number_of_completions(name: str) -> None:
    variant = ALL[name]
    count, group = variant.training(PROBLEMS)
    if variant.rule in ("trusted_alone", "untrained"):
        assert (count, group) == (0, 0)
    else:
        assert 0 <= PROBLEMS * COMPLETIONS - (count * group + (variant.trusted or 0)) < count


@pytest.mark.parametrize("events", [False, True])
def test_stories_of_equal_quantities_have_their_problem_as_a_sibling(events: bool) -> None:
    if events:
        generated = generate_from_events({"train": 40}, 1, 2, 0.0, 5, 2)["train"]
    else:
        generated = generate_splits({"train": 40}, 1, 2, 0.0, 5, 4)["train"]
    found = [(one, with_equal_quantities(one, 1, 5)) for one in generated]
    assert sum(other is not None for _, other in found) >= (20 if events else 30)
    for one, other in found:
        if other is None:
            continue
        quantities = numbers(other.question)
        assert len(set(quantities)) < len(quantities)
        assert other.answer not in quantities
        assert (other.problem_id, other.siblings[0].question) == (one.problem_id, one.question)
        assert other == with_equal_quantities(one, 1, 5)
