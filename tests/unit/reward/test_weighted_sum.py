"""Laws of the rewards: a fault of the workflow is 0, an unknown value is None."""

import math
from collections.abc import Callable
from statistics import pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.environments.tagged_answer import TaggedAnswer
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.params.sections import Rewards
from tasks.programs.efficiency import Budget
from tasks.programs.sandbox.sandbox import SANDBOX_DIED
from tasks.records.problems import Split
from tasks.records.programs import Result, Status
from tasks.reward.builtin_terms import COMMON, correctness, runs
from tasks.reward.metrics import RewardTotals, plateau_remarks, remarks
from tasks.reward.weighted_sum import Failures, combine, first_failure, reward_group
from tasks.statistics.divergence import divergence_remarks
from tasks.trajectories import RewardedTrajectory, Trajectory
from tests.support.groups import make_group, with_fields

WORKFLOW = WorkflowEnvironment()

OK, WRONG = Result(status="ok", value=5), Result(status="ok", value=6)
KILLED = Result(status="failed", error=SANDBOX_DIED)
PLAIN = {"own": [], "efficiency": 0.0}
WEIGHTS = Rewards(correctness=1.0, runs=0.1, **PLAIN)
BUDGET = Budget(calls=4, max_tokens=100, price=(1.0, 2.0))
FAULTS: list[Status] = ["error", "timeout", "memory", "refused", "killed"]


def trajectory(*members: list[Result], tokens: list[list[int]] | None = None, split: Split = "train") -> Trajectory:
    """A group whose members gave these results on the problem (answer 5) and on siblings with the same answer."""
    tokens = tokens or [[1, 2, 3]] * len(members)
    fields = {"split": split, "tokens": tokens, "logprobs": [[-0.1] * len(row) for row in tokens]}
    fields["workflow_id"] = [f"w{place}" for place in range(len(members))]
    fields["sibling_results"] = [own[1:] for own in members]
    return make_group(["x" * 40] * len(members), [own[0] for own in members], len(members[0]) - 1, **fields)


def of_first(term: Callable[..., float | None], *members: list[Result], **more: Any) -> float | None:
    """The value of a term for the first member."""
    group = trajectory(*members, **more)
    return term(group.problem, group.members[0])


def rewards_in(rewarded: RewardedTrajectory) -> list[float | None]:
    return [reward.reward for reward in rewarded.rewards]


def score(*members: list[Result], weights: Rewards = WEIGHTS, **more: Any) -> RewardedTrajectory:
    return reward_group(WORKFLOW, trajectory(*members, **more), weights, BUDGET, {})


def test_correctness_is_the_share_of_problem_and_siblings() -> None:
    group = trajectory([OK, OK, OK], [OK, WRONG, WRONG], [WRONG, OK, WRONG], [WRONG, WRONG, WRONG])
    assert [correctness(WORKFLOW, group.problem, member) for member in group.members] == pytest.approx(
        [1, 1 / 3, 1 / 3, 0]
    )


def test_without_siblings_a_right_answer_counts_as_far_as_others_agree() -> None:
    group = with_fields(trajectory([OK], [WRONG], [OK], [KILLED]), agreement=[1.0, 1.0, 0.25, 1.0])
    assert [correctness(WORKFLOW, group.problem, member) for member in group.members] == [1, 0, 0.25, None]
    *known, unknown = rewards_in(reward_group(WORKFLOW, group, WEIGHTS, BUDGET, {}))
    assert (known, unknown) == (pytest.approx([1.1, 0.1, 0.35]), None)


@pytest.mark.parametrize("status", FAULTS)
def test_a_fault_of_the_workflow_earns_0(status: Status) -> None:
    rewarded = score([Result(status=status), Result(status=status)])
    assert (rewards_in(rewarded), rewarded.rewards[0].status) == ([0.0], "ok")


DAMAGED = Result(status="failed", error="workflow file: no such file")


@pytest.mark.parametrize("results", [[KILLED, OK], [OK, KILLED], [KILLED, KILLED], [DAMAGED, DAMAGED]])
def test_a_failure_outside_the_workflow_leaves_no_reward(results: list[Result]) -> None:
    rewarded = score(results, [OK, OK])
    assert rewards_in(rewarded) == [None, pytest.approx(1.1)]
    assert [reward.status for reward in rewarded.rewards] == ["failed", "ok"]
    assert [reward.terms["correctness"] for reward in rewarded.rewards] == [None, 1.0]
    if DAMAGED in results:
        with pytest.raises(GraftError, match="workflow w0 of problem p, for instance: workflow file: no such file;"):
            failures_of([rewarded]).check("trajectories.jsonl", 0.2)


NUMBERS, OTHERS = [5, 6.5, 0, -3, 10**400], ["inf", "nan", "5", "text", None]


@pytest.mark.parametrize(("value", "expected"), [*((n, 1) for n in NUMBERS), *((other, 0) for other in OTHERS)])
def test_runs_is_1_for_a_number(value: Any, expected: float) -> None:
    assert of_first(runs, [Result(status="ok", value=value)]) == expected
    assert of_first(runs, [Result(status="error", value=value)]) == 0


def test_efficiency_is_a_share_of_correctness_and_unknown_where_that_is() -> None:
    """Of 4 calls with 100 tokens at 2 dollars a million, at most 800 millionths."""
    asked = Result(status="ok", value=5, calls=1, prompt_tokens=40, completion_tokens=20)
    group = trajectory([OK, OK], [asked, OK], [WRONG, WRONG], [KILLED, OK], [OK, WRONG])
    codes = ["return 1 + 2", "x = ask(problem)\ny = x + 1 * 2", "", "", "no Python"]
    group = with_fields(group, code=codes)
    weights = WEIGHTS.model_copy(update={"efficiency": 1.0})

    def factors(group: Trajectory, price: tuple[float, float] | None) -> list[float | None]:
        rewarded = reward_group(WORKFLOW, group, weights, BUDGET._replace(price=price), {})
        return [reward.terms["efficiency"] for reward in rewarded.rewards]

    for price in (None, (1.0, 0.0)):  # without a price of replies, operations count
        assert factors(group, price) == [1 / 2, 1 / 4, 0, None, 0]
    assert factors(group, (1.0, 2.0)) == [1, pytest.approx(1 - (40 + 2 * 20) / 2 / 800), 0, None, 0.5]
    dear = Result(status="ok", value=5, calls=4, prompt_tokens=10**6, completion_tokens=400)
    assert factors(trajectory([dear]), (1.0, 2.0)) == [0]


def test_efficiency_needs_programs() -> None:
    with pytest.raises(GraftError, match=r"rewards\.efficiency: counts what programs do, and this"):
        reward_group(TaggedAnswer(), trajectory([OK]), WEIGHTS.model_copy(update={"efficiency": 0.1}), BUDGET, {})


weights = st.floats(0, 100, allow_nan=False)


@given(st.dictionaries(st.sampled_from(sorted(COMMON)), st.tuples(weights, st.none() | st.floats(0, 1)), min_size=1))
def test_a_reward_is_the_weighted_sum_or_unknown(drawn: dict[str, tuple[float, float | None]]) -> None:
    terms = {name: term for name, (_, term) in drawn.items()}
    reward = combine(terms, {name: weight for name, (weight, _) in drawn.items()})
    if None in terms.values():
        assert reward is None
    else:
        assert reward == pytest.approx(sum(weight * (term or 0) for weight, term in drawn.values()))


def metrics_of(groups: list[RewardedTrajectory]) -> dict[str, float]:
    with RewardTotals(WORKFLOW) as totals:
        for group in groups:
            totals.add(group)
        return totals.metrics


def failures_of(groups: list[RewardedTrajectory]) -> Failures:
    failures = Failures()
    failures.add_failure(first_failure(groups, {}))
    for group in groups:
        failures.add(group)
    return failures


def rewarded_groups() -> list[RewardedTrajectory]:
    return [score([OK, OK], [WRONG, WRONG]), score([OK, WRONG], [OK, WRONG]), score([KILLED, OK], [OK, OK])]


def test_metrics() -> None:
    assert metrics_of(rewarded_groups()) == {
        "epoch/accumulated_reward": pytest.approx(1.1 + 0.1 + 0.6 + 0.6 + 1.1),
        "epoch/mean_reward": pytest.approx(3.5 / 5),
        "epoch/reward_std": pytest.approx(pstdev([1.1, 0.1, 0.6, 0.6, 1.1])),
        "pass_at_1": pytest.approx(2 / 3),
        "pass_at_1_low": pytest.approx(2 / 3 - 1.96 * math.sqrt(1 / 18 / 3)),
        "pass_at_1_high": pytest.approx(2 / 3 + 1.96 * math.sqrt(1 / 18 / 3)),
        "epoch/samples": 5,
        "failed_share": pytest.approx(1 / 6),
        "timeout_share": 0.0,
        "positive_share": 1.0,
        "solved_share": pytest.approx(2 / 3),
        "mean_reward_error": pytest.approx(math.sqrt(2 * 0.5) / 5),  # of [1.1, 0.1], [0.6, 0.6] and one alone
        "groups": 2,
        "groups_with_signal": 1,
        "correctness/failed_share": pytest.approx(1 / 6),
        "correctness/mean": pytest.approx(0.6),
        "correctness/std": pytest.approx(math.sqrt((2 * 0.16 + 0.36 + 2 * 0.01) / 5)),
        "runs/failed_share": pytest.approx(1 / 6),
        "runs/mean": 1.0,
        "runs/std": 0.0,
    }


def level(mean: float, error: float = 0.01) -> dict[str, float]:
    return {"epoch/mean_reward": mean, "mean_reward_error": error}


@pytest.mark.parametrize(
    ("means", "since"),
    [
        ([0.4, 0.4, 0.4], None),  # too few
        ([0.4, 0.4, 0.4, 0.4], 1),
        ([0.1, 0.4, 0.42, 0.39, 0.41], 2),  # within 1.96 × 0.014
        ([0.1, 0.2, 0.3, 0.4], None),
        ([0.4, 0.4, 0.4, 0.43], None),
        ([0.4, 0.37, 0.4, 0.4], None),  # it fell and came back
        ([0.4, 0.3, 0.2, 0.1], None),
    ],
)
def test_a_reward_without_change_for_three_rounds_is_remarked_on(means: list[float], since: int | None) -> None:
    found = [text[: text.index(" (")] for text in plateau_remarks(dict(enumerate(map(level, means), start=1)))]
    assert found == ([f"The mean reward has not moved since round {since}"] if since else [])


def passes(mean: float, half: float = 0.03) -> dict[str, float]:
    return {"pass_at_1": mean, "pass_at_1_low": mean - half, "pass_at_1_high": mean + half}


@pytest.mark.parametrize(
    ("rewards", "own", "dev", "fell"),
    [
        ((0.4, 0.5), (0.5, 0.4), (), ["its own samples fell from 0.500 to 0.400"]),
        ((0.4, 0.5), (0.5, 0.5), (0.5, 0.4), ["dev problems fell from 0.500 to 0.400"]),
        (
            (0.4, 0.5),
            (0.5, 0.4),
            (0.6, 0.4),
            ["its own samples fell from 0.500 to 0.400", "dev problems fell from 0.6"],
        ),
        ((0.4, 0.5), (0.5, 0.6), (0.5, 0.6), []),  # a healthy run
        ((0.4, 0.5), (0.5, 0.46), (0.5, 0.46), []),  # within 0.03 · √2
        ((0.4, 0.42), (0.5, 0.4), (), []),  # within 1.96 × 0.014: the reward did not rise
        ((0.5, 0.4), (0.5, 0.4), (), []),  # both fell: no reward misled it
        ((0.4, 0.45, 0.5), (0.5, 0.3, 0.5), (), []),  # it came back
        ((0.4,), (0.5,), (0.5,), []),
        ((), (), (), []),
    ],
)
def test_a_policy_that_gets_worse_while_rewards_rise_is_remarked_on(
    rewards: tuple[float, ...], own: tuple[float, ...], dev: tuple[float, ...], fell: list[str]
) -> None:
    rounds = {n: level(mean) | passes(share) for n, (mean, share) in enumerate(zip(rewards, own, strict=True), start=1)}
    lines = divergence_remarks(rounds, {2 * n: passes(share) for n, share in enumerate(dev, start=1)})
    assert [text in line for text, line in zip(fell, lines, strict=True)] == [True] * len(fell)


def test_without_independent_samples_or_errors_nothing_is_said_of_a_divergence() -> None:
    rising = {1: level(0.4), 2: level(0.5)}
    assert divergence_remarks(rising, {}) == []
    assert divergence_remarks({n: {"epoch/mean_reward": 0.1 * n} | passes(0.9 - 0.1 * n) for n in (1, 2)}, {}) == []


def test_groups_without_signal_are_remarked_on_where_no_term_says_it_already() -> None:
    flat = [score([OK], [OK]), score([WRONG], [WRONG])]
    assert [remark[:37] for remark in remarks(metrics_of(flat))][1:] == ["no group has two different rewards: r"]
    alone = [score([OK]), score([WRONG])]  # compared with the whole batch; of one flat group the terms are constant
    for others in (rewarded_groups(), flat[:1], alone):
        assert not any("group" in remark for remark in remarks(metrics_of(others)))


def test_a_term_with_one_value_in_the_whole_round_is_remarked_on() -> None:
    assert remarks(metrics_of(rewarded_groups())) == [
        "rewards.runs is 1 for every completion: it teaches nothing; set its weight to 0, or see why none differs"
    ]
    assert remarks({"mark/mean": 0.0, "mark/std": 0.0, "runs/mean": 0.5, "runs/std": 0.5}) == [
        "rewards.mark is 0 for every completion: it teaches nothing; set its weight to 0, or see why none earns any"
    ]
    assert remarks(metrics_of([score([KILLED])])) == []  # nothing is known
    assert remarks({"mark/mean": 0.1, "mark/std": 3e-17}) != []  # rounding is no difference
    assert remarks({"mark/mean": 0.1, "mark/std": 1e-3}) == []


def test_where_nothing_is_right_the_prompt_or_the_problems_are_named_and_no_weight() -> None:
    nothing = remarks(metrics_of([score([WRONG, WRONG], [WRONG, WRONG])]))[0]
    assert nothing.startswith("rewards.correctness is 0 for every completion; see what the policy writes")
    flat = {"mean": 0.0, "std": 0.0}
    all_terms = {f"{name}/{key}": value for name in ("correctness", "mark") for key, value in flat.items()}
    (line,) = remarks({**all_terms, "groups": 2, "groups_with_signal": 0})
    assert line.startswith("rewards.correctness, rewards.mark: 0 for every completion; see what")
    for told in (nothing, line):
        assert "weight" not in told
        assert "policy.prompt" in told
        assert "environment.operations" in told
    right = remarks({"correctness/mean": 1.0, "correctness/std": 0.0})
    assert right == ["rewards.correctness is 1 for every completion; give harder problems"]


def test_too_many_failures_stop_the_stage() -> None:
    groups = rewarded_groups()
    assert failures_of(groups).share() == pytest.approx(1 / 6)
    failures_of(groups).check("trajectories.jsonl", 0.2)
    failures_of(groups).check("trajectories.jsonl", 1 / 6)
    with pytest.raises(GraftError, match=r"1 rewards \(17%\) could not be computed, more than 10%.* w0 "):
        failures_of(groups).check("trajectories.jsonl", 0.1)
