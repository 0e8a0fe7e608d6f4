"""The benchmark of selection: conditions, variants, kept results and figures are what their names say."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from benchmarks.influence_selection import rules
from benchmarks.influence_selection.conditions import (
    ERRING,
    FLIPPED,
    LONG,
    Condition,
    is_flipped,
    rewards_of,
    trusted_rewards,
)
from benchmarks.influence_selection.equal_quantities import with_equal_quantities
from benchmarks.influence_selection.figures import Runs, figures, table
from benchmarks.influence_selection.gradalign import aligned_problems, cosine
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
from benchmarks.influence_selection.training_run import Job, asked_as_it_is
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
    STEPS,
    TRUSTED,
    Rule,
    sized,
)
from benchmarks.influence_ways import Shape, plain, samples_of, scorer_of
from benchmarks.selection import jobs, missing
from benchmarks.selection import runs_of as kept_runs
from benchmarks.support.short_runs import append_figures, params_of
from benchmarks.support.student_interval import interval
from tasks.environments.word_problems.events.generate_events import generate_from_events
from tasks.environments.word_problems.generate import generate_splits
from tasks.objective.groups import SampleGroup
from tasks.programs.operators.builtin import numbers
from tasks.records import Problem, Result, Selected, Sibling
from tasks.select.select_samples import Selection
from tasks.trajectories import Member, Trajectory

pytestmark = pytest.mark.nightly

GROUP = 8


def problem(number: int, siblings: int = 1) -> Problem:
    others = [Sibling(question=f"{number} + {n}?", answer=10 * n) for n in range(1, siblings + 1)]
    return Problem(problem_id=f"p{number}", question="?", answer=1, source="generated", siblings=others)


def member(answers: list[int], tokens: int = 5) -> Member:
    """A completion with these answers to the problem and its sibling."""
    result, *others = (Result(status="ok", value=answer) for answer in answers)
    logprobs = [-1.0] * tokens
    return Member(
        workflow_id="w",
        code="",
        proposer="sample",
        result=result,
        sibling_results=others,
        tokens=[1] * tokens,
        logprobs=logprobs,
    )


def test_each_condition_rewards_what_it_says() -> None:
    group = [member([1, 10]), member([1, 0]), member([0, 0], LONG), *[member([0, 0])] * (GROUP - 3)]
    asked = Trajectory(
        split="train", problem=problem(0), prompt="?", prompt_tokens=[], members=group, policy_version="v"
    )
    rewards = {condition: rewards_of(condition, asked, 0, 0) for condition in get_args(Condition)}
    assert rewards["clean"][:4] == [1.0, 0.5, 0.0, 0.0]
    assert rewards["answer_only"][:4] == [1.0, 1.0, 0.0, 0.0]
    assert rewards["biased"][:4] == [1.0, 0.5, 1.0, 0.0]
    trusted = trusted_rewards(asked)
    assert trusted == [1.0] + [0.0] * (GROUP - 1)
    for condition, share in FLIPPED.items():
        flips = [is_flipped(problem(0), place, 0, 0, share) for place in range(GROUP)]
        assert rewards[condition] == [float(bool(own) != flip) for own, flip in zip(trusted, flips, strict=True)]
    assert set(ERRING) == set(get_args(Condition)) - {"clean"}


@given(st.integers(0, 4), st.integers(0, 12))
def test_a_problem_that_is_asked_as_it_is_has_its_own_question_in_every_round(siblings: int, round: int) -> None:
    own = problem(0, siblings)
    asked = asked_as_it_is(own, round).rotated(round)
    assert (asked.question, asked.answer) == (own.question, own.answer)
    assert sorted(s.question for s in asked.siblings) == sorted(s.question for s in own.siblings)


@pytest.mark.parametrize("share", FLIPPED.values())
def test_so_many_rewards_are_flipped_and_others_in_each_round(share: float) -> None:
    rows = [(problem(n), m) for n in range(200) for m in range(GROUP)]
    flips = [[is_flipped(one, m, 0, round, share) for one, m in rows] for round in (0, 1)]
    for own in flips:
        assert sum(own) / len(own) == pytest.approx(share, abs=0.04)
    assert flips[0] != flips[1]


def test_selection_by_influence_is_positive_and_else_as_shipped() -> None:
    shipped = params_of([]).influence
    for trusted in TRUSTED:
        variant = ALL[sized(INFLUENCE, trusted)]
        own = params_of(variant.assignments(PROBLEMS)).influence
        sizes = {"n": own.n, "completions": own.completions}
        assert own == shipped.model_copy(update={"selection": "positive", "train_on_validation": True} | sizes)
        assert own.n * own.completions == trusted


def test_rules_keep_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the samples with an advantage above 0; `random` and `bottom` as many as have an influence above 0."""
    rows = zip([0.3, -0.2, 0.1, -0.4, 0.2, -0.1], [1.0, 1.0, 1.0, 1.0, -1.0, -1.0], strict=True)
    lines = [
        Selected(
            problem_id="p",
            member=place,
            workflow_id="w",
            advantage=advantage,
            influence=influence,
            gradient_norm=1.0,
            selected=min(influence, advantage) > 0,
        )
        for place, (influence, advantage) in enumerate(rows)
    ]
    monkeypatch.setattr(rules, "select_samples", lambda *_: Selection(lines, {}))
    group = SampleGroup("p", [], [], [], [], [], [], [])
    trusted = {"p": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]}

    def kept(rule: Rule, *assignments: str) -> list[tuple[str, int]]:
        policy: Any = None
        chosen = rules.select_by(rule, trusted, policy, [group], [], params_of(assignments), 1).lines
        return [(line.split, line.member) for line in chosen if line.selected]

    alone = "influence.train_on_validation=false"
    assert kept("positive", alone) == [("train", 0), ("train", 2)]
    assert kept("negative") == kept("bottom") == [("train", 1), ("train", 3)]
    assert kept("oracle", alone) == [("train", 0), ("train", 3)]
    assert len(kept("random")) == 2
    assert {place for _, place in kept("random")} <= {0, 1, 2, 3}
    assert kept("oracle")[2:] == [("validation", 0), ("validation", 2)]


@given(st.lists(st.booleans(), min_size=4, max_size=40), st.sampled_from([(0.1, 0.3), (0.0, 0.0), (0.25, 0.5)]))
def test_corrected_rewards_have_the_true_rewards_as_their_mean(truths: list[bool], rates: tuple[float, float]) -> None:
    false, missed = rates
    first, second = corrected([1.0, 0.0], rates)
    for truth in truths:
        one = 1 - missed if truth else false
        assert one * first + (1 - one) * second == pytest.approx(float(truth))


def test_flip_rates_are_shares_of_the_wrong_and_of_the_right() -> None:
    assert flip_rates([1, 0, 0, 0, 1, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]) == (0.25, 0.25)
    assert flip_rates([0.0, 0.0], [0.0, 0.0]) == (0.0, 0.0)
    assert corrected([1.0, 0.0], (0.5, 0.5)) == [0.0, 0.0]


def test_the_majority_is_the_most_frequent_answer() -> None:
    assert majority_rewards([3, 5, 5, None, 3.0, 5]) == [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]
    assert majority_rewards([None]) == [0.0]


def test_a_vote_is_the_single_most_frequent_answer_and_its_share() -> None:
    assert vote_of([3, 5, 5, None]) == Vote(5, 0.5)
    assert vote_of([3, 5]) == Vote(None, 0.0) == vote_of([None])


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
    expected = [0.25, 0.0, 1.0] if refined is None else [0.0, 1.0, 0.0]
    assert refined_rewards([0.25, 0.0, 1.0], [3, 5, None], passes) == expected


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


def runs_of(finals: dict[tuple[str, str], float]) -> Runs:
    keys: list[tuple[Condition, str]] = [(condition, name) for condition in get_args(Condition) for name in ALL]
    return {
        key: {
            seed: {"final": finals.get(key, 0.2) + seed / 100, "steps": 10, "kept": 0.5, "seconds": 1.0}
            for seed in range(2)
        }
        for key in keys
    }


def test_figures_are_differences_and_shares() -> None:
    runs = runs_of(
        {
            ("clean", CHOSEN): 0.25,
            ("answer_only", ORACLE): 0.30,
            ("answer_only", CHOSEN): 0.28,
            ("biased", ORACLE): 0.31,
            ("biased", CHOSEN): 0.30,
            ("flipped", CHOSEN): 0.26,
            ("flipped", sized(INFLUENCE, 16)): 0.24,
            ("biased", sized(ALONE, 64)): 0.21,
        }
    )
    found, notes = figures(runs, {128: 0.75, 1024: 0.9}, [0, 1], {})
    assert found == {
        "clean_gain": 0.05,
        "flipped_auc_128": 0.75,
        "flipped_auc_1024": 0.9,
        "flipped_gain": 0.06,
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
    assert table("biased", runs).row_count == len(ALL)


def test_a_figure_without_its_runs_is_null_and_the_note_says_which() -> None:
    runs = {key: of for key, of in runs_of({}).items() if key != ("biased", sized(INFLUENCE, 64))}
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
    one = job(NONE)
    assert one.digest == replace(one, folder=Path("elsewhere"), name="renamed").digest
    others = [job(NONE, seed=8), job(NONE, rounds=3), job(NONE, problems=32)]
    others += [job(NONE, "biased"), job(NONE, "flipped_10"), job(ORACLE), job(REPEATED)]
    others += [job(sized(name, 64)) for name in (INFLUENCE, MIXED, ALONE, GRADALIGN)]
    assert len({one.digest, *(other.digest for other in others)}) == 1 + len(others)
    for name in (sized(ALONE, 16), "majority", "first policy"):
        assert job(name).digest == job(name, "biased").digest, "no training reward is read"
    assert job("majority").digest != job("majority", "answer_only").digest, "other problems"


def test_kept_results_are_read_again_and_only_what_is_missing_is_run(tmp_path: Path) -> None:
    keep, alone = tmp_path / "results.jsonl", sized(ALONE, 16)
    planned = [job(NONE), job(ORACLE), job(alone), job(alone, "biased")]
    assert missing(planned, keep) == planned[:3]
    figures = {"final": 0.25, "kept": 0.5, "steps": 64.0, "seconds": 12.0}
    append_figures(keep, planned[2].digest, figures)
    assert missing(planned, keep) == planned[:2]
    assert kept_runs(planned, keep) == {(condition, alone): {7: figures} for condition in ("flipped", "biased")}


def test_what_the_figures_need_is_planned() -> None:
    planned = jobs({7: Path("seven")}, 2)
    keys = [(job.condition, job.name) for job in planned]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {(condition, name) for condition, names in PLAN.items() for name in names}
    assert {(condition, name) for condition, names in FIGURES.items() for name in names} <= set(keys)
    assert {(condition, name) for condition in ERRING for name in METHODS} <= set(keys)
    few = jobs({7: Path("seven"), 8: Path("eight")}, 2, conditions=["biased"], variants=DECISIVE)
    assert [(job.seed, job.condition) for job in few] == [(seed, "biased") for seed in (7, 8) for _ in DECISIVE]
    assert {job.name for job in few} == set(DECISIVE)
    wanted = {sized(name, trusted) for name in (INFLUENCE, MIXED, ALONE, GRADALIGN) for trusted in (16, 64, 256)}
    assert set(DECISIVE) == {"first policy", NONE, ORACLE, *wanted}


@pytest.mark.parametrize("name", ALL)
def test_every_variant_has_nearly_as_many_completions_and_as_many_steps(name: str) -> None:
    variant = ALL[name]
    count, group = variant.training(PROBLEMS)
    if variant.rule == "trusted_alone":
        assert count * group == variant.trusted
    else:
        assert 0 <= PROBLEMS * COMPLETIONS - (count * group + (variant.trusted or 0)) < count
    learnt = count + variant.held_out[0] * variant.mixed
    params = params_of(variant.assignments(PROBLEMS))
    assert math.ceil(learnt / params.update.prompts_per_step) == STEPS
    assert params.search.simulations == params.search.samples == params.update.group_size == group


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
