"""Laws of the rewards: what is the workflow's fault is 0, what nobody knows is None."""

import math
import random
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.params.sections import Rewards
from tasks.programs.sandbox.sandbox import SANDBOX_DIED, Program, Sandbox
from tasks.records import Problem, Result, RewardedTrajectory, Sibling, Split, Status, Trajectory
from tasks.rewards.builtin_terms import COMMON, correctness, length, runs
from tasks.rewards.metrics import RewardTotals, plateau_remarks, remarks
from tasks.rewards.weighted_sum import Failures, combine, first_failure, reward_group

WORKFLOW = WorkflowEnvironment()

OK, WRONG, KILLED = (
    Result(status="ok", value=5),
    Result(status="ok", value=6),
    Result(status="failed", error=SANDBOX_DIED),
)
PLAIN: dict[str, Any] = {
    "environment": {},
    "strict": False,
    "own_sha256": None,
    "own": [],
    "seconds": 10,
    "model": None,
    "model_sha256": None,
    "agreement": True,
}
WEIGHTS = Rewards(correctness=1.0, runs=0.1, length=0.0, failed_limit=0.2, **PLAIN)
FAULTS: list[Status] = ["error", "timeout", "memory", "refused", "killed"]


def trajectory(*members: list[Result], tokens: list[list[int]] | None = None, split: Split = "train") -> Trajectory:
    """A group whose members gave these results on the problem (answer 5) and on siblings with the same answer."""
    siblings = [Sibling(question="4 and 1?", answer=5)] * (len(members[0]) - 1)
    size = len(members)
    return Trajectory(
        problem_id="p",
        split=split,
        problem=Problem(problem_id="p", question="2 and 3?", answer=5, source="test", siblings=siblings),
        prompt="2 and 3?\n",
        workflow_codes=["x" * 40] * size,
        workflow_ids=[f"w{place}" for place in range(size)],
        proposers=["sample"] * size,
        results=[results[0] for results in members],
        sibling_results=[results[1:] for results in members],
        tokens=tokens or [[1, 2, 3]] * size,
        logprobs=[[-0.1] * len(row) for row in tokens or [[1, 2, 3]] * size],
        policy_version="v",
    )


def test_correctness_is_the_share_of_problem_and_siblings() -> None:
    group = trajectory([OK, OK, OK], [OK, WRONG, WRONG], [WRONG, OK, WRONG], [WRONG, WRONG, WRONG])
    assert [correctness(WORKFLOW, group, member) for member in range(4)] == [
        1,
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
        0,
    ]


def test_without_siblings_a_right_answer_counts_as_far_as_others_agree() -> None:
    group = trajectory([OK], [WRONG], [OK], [KILLED]).model_copy(update={"agreement": [1.0, 1.0, 0.25, 1.0]})
    assert [correctness(WORKFLOW, group, member) for member in range(4)] == [1, 0, 0.25, None]
    assert reward_group(WORKFLOW, group, WEIGHTS, 8).rewards == [
        pytest.approx(1.1),
        pytest.approx(0.1),
        pytest.approx(0.35),
        None,
    ]


def test_agreement_is_only_written_where_there_is_one() -> None:
    group = trajectory([OK, OK])
    assert "agreement" not in group.model_dump_json()
    agreed = trajectory([OK]).model_copy(update={"agreement": [0.5]})
    assert Trajectory.model_validate_json(agreed.model_dump_json()) == agreed


@pytest.mark.parametrize("status", FAULTS)
def test_a_fault_of_the_workflow_earns_nothing_and_is_known(status: Status) -> None:
    rewarded = reward_group(WORKFLOW, trajectory([Result(status=status), Result(status=status)]), WEIGHTS, 8)
    assert rewarded.rewards == [0.0]
    assert rewarded.reward_status == ["ok"]


def test_a_workflow_that_ends_itself_earns_nothing() -> None:
    """If that left the reward open, a policy could dodge bad marks by crashing."""
    crash = Program("import os\ndef solve(problem):\n    os._exit(0)\n", ("2 and 3?", "4 and 1?"))
    with Sandbox(seconds=5, memory_mb=256, allow_weak=True, workers=1) as sandbox:
        (results,) = sandbox.run([crash])
    rewarded = reward_group(WORKFLOW, trajectory(results), WEIGHTS, 8)
    assert (rewarded.rewards, rewarded.reward_status) == ([0.0], ["ok"])


@pytest.mark.parametrize("results", [[KILLED, OK], [OK, KILLED], [KILLED, KILLED]])
def test_what_the_sandbox_died_over_has_no_reward(results: list[Result]) -> None:
    rewarded = reward_group(WORKFLOW, trajectory(results, [OK, OK]), WEIGHTS, 8)
    assert rewarded.rewards == [None, pytest.approx(1.1)]
    assert rewarded.reward_status == ["failed", "ok"]
    assert rewarded.reward_terms["correctness"] == [None, 1.0]


def test_a_workflow_whose_file_was_damaged_has_no_reward() -> None:
    fault = Result(status="failed", error="workflow file: no such file")
    lost = reward_group(WORKFLOW, trajectory([fault, fault], [OK, OK]), WEIGHTS, 8)
    assert (lost.rewards, lost.reward_status) == ([None, pytest.approx(1.1)], ["failed", "ok"])
    with pytest.raises(GraftError, match="workflow w0 of problem p, for instance: workflow file: no such file;"):
        failures_of([lost]).check("trajectories.jsonl", 0.2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 1), (6.5, 1), (0, 1), (-3, 1), (10**400, 1), ("inf", 0), ("nan", 0), ("5", 0), ("text", 0), (None, 0)],
)
def test_runs_asks_for_a_number(value: Any, expected: float) -> None:
    assert runs(trajectory([Result(status="ok", value=value)]), 0) == expected
    assert runs(trajectory([Result(status="error", value=value)]), 0) == 0


def test_runs_looks_at_the_problem_alone() -> None:
    assert runs(trajectory([OK, Result(status="error")]), 0) == 1
    assert runs(trajectory([KILLED, OK]), 0) is None


@given(count=st.integers(1, 100), limit=st.integers(8, 64))
def test_length_falls_from_one_to_nothing(count: int, limit: int) -> None:
    value = length(limit, trajectory([OK], tokens=[[1] * count]), 0)
    assert value == pytest.approx(max(0.0, 1 - count / limit))


def test_length_of_a_completion_without_tokens_is_that_of_its_code() -> None:
    assert length(20, trajectory([OK], tokens=[[]]), 0) == pytest.approx(0.5)


weights = st.floats(0, 100, allow_nan=False)


@given(st.dictionaries(st.sampled_from(sorted(COMMON)), st.tuples(weights, st.none() | st.floats(0, 1)), min_size=1))
def test_a_reward_is_the_weighted_sum_or_unknown(drawn: dict[str, tuple[float, float | None]]) -> None:
    terms = {name: term for name, (_, term) in drawn.items()}
    reward = combine(terms, {name: weight for name, (weight, _) in drawn.items()})
    if None in terms.values():
        assert reward is None
    else:
        assert reward == pytest.approx(sum(weight * (term or 0) for weight, term in drawn.values()))


def test_a_weight_of_nothing_leaves_the_term_out() -> None:
    group = trajectory([KILLED])
    only_length = Rewards(correctness=0, runs=0, length=2.0, failed_limit=0, **PLAIN)
    rewarded = reward_group(WORKFLOW, group, only_length, 6)
    assert rewarded.reward_terms == {"length": [0.5]}
    assert rewarded.rewards == [1.0]
    assert rewarded.reward_status == ["ok"]


def test_a_scored_trajectory_keeps_all_that_it_was() -> None:
    group = trajectory([OK, OK], [WRONG, OK])
    rewarded = reward_group(WORKFLOW, group, WEIGHTS, 8)
    assert Trajectory(**{name: getattr(rewarded, name) for name in Trajectory.model_fields}) == group
    assert set(rewarded.reward_terms) == {"correctness", "runs"}


def metrics_of(groups: list[RewardedTrajectory]) -> dict[str, float]:
    with RewardTotals(WORKFLOW) as totals:
        for group in groups:
            totals.add(group)
        return totals.metrics


def failures_of(groups: list[RewardedTrajectory]) -> Failures:
    failures = Failures()
    failures.add_failure(first_failure(groups))
    for group in groups:
        failures.add(group)
    return failures


def rewarded_groups() -> list[RewardedTrajectory]:
    groups = [
        trajectory([OK, OK], [WRONG, WRONG]),
        trajectory([OK, WRONG], [OK, WRONG]),
        trajectory([KILLED, OK], [OK, OK]),
        trajectory([OK, OK], split="validation"),
    ]
    return [reward_group(WORKFLOW, group, WEIGHTS, 8) for group in groups]


def test_metrics() -> None:
    assert metrics_of(rewarded_groups()) == {
        "epoch/accumulated_reward": pytest.approx(1.1 + 0.1 + 0.6 + 0.6 + 1.1),
        "epoch/mean_reward": pytest.approx(3.5 / 5),
        "validation/mean_reward": pytest.approx(1.1),
        "failed_share": pytest.approx(1 / 7),
        "timeout_share": 0.0,
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


def test_metrics_hold_no_mean_of_nothing() -> None:
    train = [group for group in rewarded_groups() if group.split == "train"]
    assert "validation/mean_reward" not in metrics_of(train)
    all_failed = metrics_of([reward_group(WORKFLOW, trajectory([KILLED]), WEIGHTS, 8)])
    assert all_failed == {
        "epoch/accumulated_reward": 0.0,
        "failed_share": 1.0,
        "timeout_share": 0.0,
        "solved_share": 0.0,
        "groups": 0,
        "groups_with_signal": 0,
        "correctness/failed_share": 1.0,
        "runs/failed_share": 1.0,
    }


def test_the_error_of_the_mean_is_how_far_other_draws_lie_from_it() -> None:
    """Groups drawn anew of problems with chances of their own: the deviation of their means is what one round says."""
    dice = random.Random(0)

    def drawn() -> dict[str, float]:
        chances = [0.1, 0.3, 0.5, 0.9] * 5
        draws = ([[OK if dice.random() < chance else WRONG] for _ in range(12)] for chance in chances)
        return metrics_of([reward_group(WORKFLOW, trajectory(*members), WEIGHTS, 8) for members in draws])

    rounds = [drawn() for _ in range(300)]
    said = fmean(numbers["mean_reward_error"] for numbers in rounds)
    assert said == pytest.approx(stdev(numbers["epoch/mean_reward"] for numbers in rounds), rel=0.1)


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
def test_a_reward_that_stands_still_for_three_rounds_is_remarked_on(means: list[float], since: int | None) -> None:
    told = plateau_remarks(dict(enumerate(map(level, means), start=1)))
    assert [remark[: remark.index(" (")] for remark in told] == (
        [f"The mean reward has not moved since round {since}"] if since else []
    )


def test_nothing_earned_at_all_is_standing_still_and_what_is_not_known_is_not() -> None:
    nothing = dict.fromkeys(range(1, 5), level(0.0, 0.0))
    assert len(plateau_remarks(nothing)) == 1
    assert plateau_remarks(nothing | {4: {"epoch/mean_reward": 0.0}}) == []  # groups of one


def test_groups_without_signal_are_remarked_on_where_no_term_says_it_already() -> None:
    flat = [reward_group(WORKFLOW, trajectory(*members), WEIGHTS, 8) for members in ([[OK], [OK]], [[WRONG], [WRONG]])]
    assert [remark[:37] for remark in remarks(metrics_of(flat))][1:] == ["no group has two different rewards, s"]
    assert not any("group" in remark for remark in remarks(metrics_of(rewarded_groups())))
    assert not any("group" in remark for remark in remarks(metrics_of(flat[:1])))  # the terms are constant
    alone = [reward_group(WORKFLOW, trajectory([result]), WEIGHTS, 8) for result in (OK, WRONG)]
    assert not any("group" in remark for remark in remarks(metrics_of(alone)))  # compared with the whole batch


def test_a_term_that_is_one_number_in_the_whole_round_is_remarked_on() -> None:
    assert remarks(metrics_of(rewarded_groups())) == [
        "rewards.runs is 1 for every completion: it teaches nothing; set its weight to 0, or see why none differs"
    ]
    nothing = metrics_of([reward_group(WORKFLOW, trajectory([WRONG, WRONG], [WRONG, WRONG]), WEIGHTS, 8)])
    assert remarks(nothing)[0].startswith("rewards.correctness is 0 for every completion: it teaches nothing")
    assert remarks(nothing)[0].endswith("or see why none earns any")
    assert remarks(metrics_of([reward_group(WORKFLOW, trajectory([KILLED]), WEIGHTS, 8)])) == []  # nothing is known
    assert remarks({"length/mean": 0.1, "length/std": 3e-17}) != []  # rounding is no difference
    assert remarks({"length/mean": 0.1, "length/std": 1e-3}) == []


def test_too_many_failures_stop_the_stage() -> None:
    groups = rewarded_groups()
    assert failures_of(groups).share() == pytest.approx(1 / 7)
    failures_of(groups).check("trajectories.jsonl", 0.2)
    failures_of(groups).check("trajectories.jsonl", 1 / 7)
    with pytest.raises(GraftError, match=r"1 rewards \(14%\) could not be computed, rewards.failed_limit is 10%.* w0 "):
        failures_of(groups).check("trajectories.jsonl", 0.1)
