"""Which recorded completions a policy can learn from: all that it may have written, and nothing that misleads it."""

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.artifacts import write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, decode, encode_completion
from tasks.model.sampling.sampler import Request, sample
from tasks.objective.recorded_completions import invalid_completions, read_valid_trajectories
from tasks.programs.code_blocks import code_of
from tasks.records import Lineage, RewardedTrajectory, Split

MakePolicy = Callable[..., Policy]
MakeTrajectory = Callable[..., RewardedTrajectory]
Line = dict[str, Any]
CODE = "def solve(problem):\n    return 1 + 2\n"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Round 1 starts from the policy that the trajectories name."""
    lineage = Lineage(version="tiny", parent=None, base="scratch", round=0, holds=["weights", "adapter"])
    write_json(Layout(tmp_path).policy(0) / "lineage.json", lineage)
    return Layout(tmp_path)


@pytest.fixture
def policy(make_policy: MakePolicy) -> Policy:
    return make_policy()


@pytest.fixture
def trajectory(policy: Policy, make_trajectory: MakeTrajectory) -> RewardedTrajectory:
    """Three completions; the one in the middle is recorded with its tokens."""
    tokens = encode_completion(policy, CODE)
    return make_trajectory("p", [1.0, 0.5, 0.0]).model_copy(
        update={
            "workflow_codes": ["solve a", CODE, "solve c"],
            "tokens": [[], tokens, []],
            "logprobs": [[], [-1.0] * len(tokens), []],
        }
    )


def changed(trajectory: RewardedTrajectory, name: str, value: Any) -> RewardedTrajectory:
    """With another entry for the completion in the middle."""
    entries = getattr(trajectory, name)
    return trajectory.model_copy(update={name: [entries[0], value, entries[2]]})


def test_what_was_written_fits(policy: Policy, trajectory: RewardedTrajectory) -> None:
    assert invalid_completions(policy, trajectory) == {}
    assert invalid_completions(policy, changed(trajectory, "logprobs", [])) == {}  # not known
    assert invalid_completions(policy, changed(changed(trajectory, "tokens", []), "logprobs", [])) == {}  # code alone
    rounded = [1e-6] * len(trajectory.tokens[1])
    assert invalid_completions(policy, changed(trajectory, "logprobs", rounded)) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(tokens=st.lists(st.integers(0, 299), min_size=1, max_size=12), ends=st.booleans())
def test_whatever_the_policy_writes_fits_cut_or_not(
    policy: Policy, trajectory: RewardedTrajectory, tokens: list[int], ends: bool
) -> None:
    written = [*tokens, policy.tokenizer.eos_token_id] if ends else tokens
    own = changed(changed(trajectory, "tokens", written), "logprobs", [-1.0] * len(written))
    assert invalid_completions(policy, changed(own, "workflow_codes", code_of(decode(policy, written)))) == {}


def test_what_the_sampler_draws_fits(policy: Policy, trajectory: RewardedTrajectory) -> None:
    for drawn in sample(policy, [Request([5, 6], seed) for seed in range(20)], 1.0, 12, "test"):
        own = changed(changed(trajectory, "tokens", drawn.tokens), "logprobs", drawn.logprobs)
        assert invalid_completions(policy, changed(own, "workflow_codes", code_of(decode(policy, drawn.tokens)))) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(text=st.text(max_size=40))
def test_whatever_another_wrote_fits_in_the_policys_tokens(
    policy: Policy, trajectory: RewardedTrajectory, text: str
) -> None:
    code = code_of(text)
    own = changed(changed(trajectory, "tokens", encode_completion(policy, code)), "logprobs", [])
    assert invalid_completions(policy, changed(own, "workflow_codes", code)) == {}


def test_a_workflow_whose_file_was_lost_has_no_reward_and_fits(policy: Policy, trajectory: RewardedTrajectory) -> None:
    lost = changed(trajectory, "workflow_codes", "")
    assert 1 in invalid_completions(policy, lost)
    assert invalid_completions(policy, changed(lost, "rewards", None)) == {}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("logprobs", [-1.0], "has 1 log-probabilities for"),
        ("logprobs", [-1.0] * 99, "has 99 log-probabilities for"),
        ("tokens", [5, 300, 1], "holds token 300, which is not in the policy's vocabulary of 300"),
        ("tokens", [5, -1, 1], "holds token -1, which is not in"),
        ("tokens", [5] * 256, "has 2.. tokens with its prompt, but policy.base holds 256"),
        ("tokens", [5, 6, 7, 1], "tokens that are not its code in the policy's tokenizer"),
        ("workflow_codes", "def solve(problem):\n    return 2 + 1\n", "tokens that are not its code"),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_line(
    name: str, value: Any, why: str, policy: Policy, trajectory: RewardedTrajectory, layout: Layout
) -> None:
    if name == "tokens":
        trajectory = changed(trajectory, "logprobs", [])
    path = layout.rewarded(1)
    held_out = trajectory.model_copy(update={"split": "validation"})
    write_jsonl(path, [held_out, changed(trajectory, name, value)])
    with pytest.raises(
        GraftError,
        match=rf"rewarded\.jsonl:2: completion 1 of problem 'p' .*{why}.* grpo\.on_invalid_completion to skip",
    ):
        list(read_valid_trajectories(policy, layout, 1, ["train"], "stop", Counter()))
    found = read_valid_trajectories(policy, layout, 1, ["validation"], "stop", Counter())
    assert list(found) == [held_out]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0.1", r"completion 1 .* has the log-probability .*, which is none"),
        *((value, r"logprobs\.1\.0: Input should be a finite number") for value in ("NaN", "Infinity", "-Infinity")),
    ],
)
def test_a_number_that_is_no_log_probability_is_named(
    value: str, why: str, policy: Policy, trajectory: RewardedTrajectory, layout: Layout
) -> None:
    line = json.loads(trajectory.model_dump_json())
    line["logprobs"][1][0] = float(value)
    path = layout.rewarded(1)
    write_text(path, "\n" + json.dumps(line) + "\n")
    with pytest.raises(GraftError, match=rf"rewarded\.jsonl:2: {why}"):
        list(read_valid_trajectories(policy, layout, 1, ["train"], "stop", Counter()))


def test_an_empty_completion_and_an_empty_prompt_are_named(policy: Policy, trajectory: RewardedTrajectory) -> None:
    nothing = changed(changed(changed(trajectory, "tokens", []), "logprobs", []), "workflow_codes", " \n")
    assert invalid_completions(policy, nothing) == {1: "is empty"}
    at_once = changed(changed(trajectory, "tokens", [1]), "logprobs", [-0.5])
    assert (
        invalid_completions(policy, changed(at_once, "workflow_codes", "")) == {}
    )  # the policy ended it before it began
    assert invalid_completions(policy, trajectory.model_copy(update={"prompt": ""})).keys() == {0, 1, 2}


def test_another_tokenizer_is_noticed(policy: Policy, make_policy: MakePolicy, trajectory: RewardedTrajectory) -> None:
    from tasks.bootstrap.tokenizer import train_tokenizer

    other = make_policy()
    other.tokenizer = train_tokenizer(["xyz zyx yxz problems return return return"], 300)
    tokens = encode_completion(other, CODE)
    theirs = changed(changed(trajectory, "tokens", tokens), "logprobs", [-1.0] * len(tokens))
    assert invalid_completions(other, theirs) == {}
    assert invalid_completions(policy, theirs).keys() == {1}


def test_skipping_leaves_the_others_and_counts(
    policy: Policy, trajectory: RewardedTrajectory, layout: Layout, caplog: pytest.LogCaptureFixture
) -> None:
    path = layout.rewarded(1)
    broken = changed(trajectory, "logprobs", [-1.0]).model_copy(update={"agreement": [1.0, 0.5, 0.25]})
    hopeless = trajectory.model_copy(update={"problem_id": "q", "prompt": ""})
    write_jsonl(path, [trajectory, broken, hopeless, broken.model_copy(update={"split": "validation"})])
    skipped = Counter[Split]()
    with caplog.at_level(logging.WARNING):
        found = list(read_valid_trajectories(policy, layout, 1, ["train", "validation"], "skip", skipped))
    assert skipped == {"train": 4, "validation": 1}
    assert f"{path}:2: completion 1 of problem 'p' has 1 log-probabilities" in caplog.text
    assert [len(t.rewards) for t in found] == [3, 2, 2]
    assert found[0] == trajectory
    assert found[1].rewards == [1.0, 0.0]
    assert found[1].workflow_ids == ["p-0", "p-2"]
    assert found[1].agreement == [1.0, 0.25]
    assert found[1].reward_terms == {"correctness": [1.0, 0.0]}


@pytest.mark.parametrize("rule", ["stop", "skip"])
@pytest.mark.parametrize("name", ["tokens", "logprobs", "rewards", "results", "reward_terms"])
def test_entries_that_do_not_belong_together_are_named(
    name: str, rule: Any, policy: Policy, trajectory: RewardedTrajectory, layout: Layout
) -> None:
    value = {"correctness": [1.0]} if name == "reward_terms" else getattr(trajectory, name)[:2]
    path = layout.rewarded(1)
    write_jsonl(path, [trajectory.model_copy(update={name: value})])
    with pytest.raises(GraftError, match=r"rewarded\.jsonl:1: \w+: [12] entries for 3 workflow codes"):
        list(read_valid_trajectories(policy, layout, 1, ["train"], rule, Counter()))


def test_what_another_policy_wrote_is_named(policy: Policy, trajectory: RewardedTrajectory, layout: Layout) -> None:
    write_jsonl(layout.rewarded(1), [trajectory, trajectory.model_copy(update={"policy_version": "other"})])
    with pytest.raises(GraftError, match=r"rewarded\.jsonl:2: policy_version: 'other' .* search@1 collect@1 reward@1"):
        list(read_valid_trajectories(policy, layout, 1, ["train"], "skip", Counter()))
