"""A policy learns from recorded completions that it may have written, and from no others."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.artifacts import read_text, write_json, write_text
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, decode, encode_completion
from tasks.model.sampling.sampler import Request, sample
from tasks.objective.recorded_completions import invalid_completions, read_valid_trajectories
from tasks.programs.code_blocks import code_of
from tasks.records import Lineage, Split
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import changed as changed_group
from tests.support.groups import with_rewards, write_rewarded
from tests.support.policies import MakePolicy, MakeTrajectory

WORKFLOW = WorkflowEnvironment()
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
    plain = make_trajectory("p", [1.0, 0.5, 0.0])
    return changed(plain, code=CODE, tokens=tokens, logprobs=[-1.0] * len(tokens))


def changed(rewarded: RewardedTrajectory, **entries: Any) -> RewardedTrajectory:
    """With other entries for the completion in the middle."""
    first, middle, last = rewarded.trajectory.members
    members = [first, middle.model_copy(update=entries), last]
    return rewarded._replace(trajectory=rewarded.trajectory.model_copy(update={"members": members}))


def rewritten(policy: Policy, rewarded: RewardedTrajectory, tokens: list[int], **entries: Any) -> RewardedTrajectory:
    """As if the policy had written these tokens."""
    code = code_of(decode(policy, tokens))
    return changed(rewarded, **{"tokens": tokens, "logprobs": [-1.0] * len(tokens), "code": code, **entries})


def read_all(policy: Policy, layout: Layout, *splits: Split) -> list[RewardedTrajectory]:
    """Of round 1; of the split `train` unless others are given."""
    return list(read_valid_trajectories(policy, WORKFLOW, layout, 1, splits or ["train"]))


def test_what_was_written_fits(policy: Policy, trajectory: RewardedTrajectory) -> None:
    known, rounded = len(trajectory.trajectory.members[1].tokens), 1e-6
    for entries in ({}, {"logprobs": []}, {"tokens": [], "logprobs": []}, {"logprobs": [rounded] * known}):
        assert invalid_completions(policy, WORKFLOW, changed(trajectory, **entries)) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(tokens=st.lists(st.integers(0, 299), min_size=1, max_size=12), ends=st.booleans())
def test_any_tokens_of_the_policy_fit_cut_or_not(
    policy: Policy, trajectory: RewardedTrajectory, tokens: list[int], ends: bool
) -> None:
    written = [*tokens, policy.tokenizer.eos_token_id] if ends else tokens
    assert invalid_completions(policy, WORKFLOW, rewritten(policy, trajectory, written)) == {}


def test_what_the_sampler_draws_fits(policy: Policy, trajectory: RewardedTrajectory) -> None:
    for drawn in sample(policy, [Request([5, 6], seed) for seed in range(20)], 1.0, 12, "test"):
        own = rewritten(policy, trajectory, drawn.tokens, logprobs=drawn.logprobs)
        assert invalid_completions(policy, WORKFLOW, own) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(text=st.text(max_size=40))
def test_any_code_of_others_fits_in_the_policys_tokens(
    policy: Policy, trajectory: RewardedTrajectory, text: str
) -> None:
    code = code_of(text)
    own = changed(trajectory, tokens=encode_completion(policy, code), logprobs=[], code=code)
    assert invalid_completions(policy, WORKFLOW, own) == {}


def test_kept_sets_are_those_of_the_tokens(policy: Policy, trajectory: RewardedTrajectory) -> None:
    tokens = trajectory.trajectory.members[1].tokens
    right = changed(trajectory, kept=[[token, 7] for token in tokens])
    assert invalid_completions(policy, WORKFLOW, right) == {}
    for sets in ([[token] for token in tokens[1:]], [[7, 8] for _ in tokens]):
        assert "kept sets that are not" in invalid_completions(policy, WORKFLOW, changed(trajectory, kept=sets))[1]
    strange = changed(trajectory, kept=[[token, 300] for token in tokens])
    assert "holds token 300" in invalid_completions(policy, WORKFLOW, strange)[1]


def test_a_workflow_whose_file_was_lost_has_no_reward_and_fits(policy: Policy, trajectory: RewardedTrajectory) -> None:
    lost = changed(trajectory, code="")
    assert 1 in invalid_completions(policy, WORKFLOW, lost)
    unknown = with_rewards(lost.trajectory, [1.0, None, 0.0])
    assert invalid_completions(policy, WORKFLOW, unknown) == {}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("logprobs", [-1.0], "has 1 log-probabilities for"),
        ("logprobs", [-1.0] * 99, "has 99 log-probabilities for"),
        ("tokens", [5, 300, 1], "holds token 300, which is not in the policy's vocabulary of 300"),
        ("tokens", [5, -1, 1], "holds token -1, which is not in"),
        ("tokens", [5] * 256, "has 2.. tokens with its prompt, but policy.base holds 256"),
        ("tokens", [5, 6, 7, 1], "tokens that are not its code in the policy's tokenizer"),
        ("code", "def solve(problem):\n    return 2 + 1\n", "tokens that are not its code"),
    ],
)
def test_a_completion_that_does_not_fit_is_named_by_file_and_line(
    name: str, value: Any, why: str, policy: Policy, trajectory: RewardedTrajectory, layout: Layout
) -> None:
    if name == "tokens":
        trajectory = changed(trajectory, logprobs=[])
    held_out = changed_group(trajectory, split="validation")
    write_rewarded(layout.trajectories(1), [held_out, changed(trajectory, **{name: value})])
    message = rf"trajectories\.jsonl:2: completion 1 of problem 'p' .*{why}.*; run the search and collect stages"
    with pytest.raises(GraftError, match=message):
        read_all(policy, layout)
    assert read_all(policy, layout, "validation") == [held_out]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0.1", r"completion 1 .* has the log-probability .*, which is none"),
        *(
            (value, r"members\.1\.logprobs\.0: Input should be a finite number")
            for value in ("NaN", "Infinity", "-Infinity")
        ),
    ],
)
def test_a_number_that_is_no_log_probability_is_named(
    value: str, why: str, policy: Policy, trajectory: RewardedTrajectory, layout: Layout
) -> None:
    write_rewarded(layout.trajectories(1), [trajectory])
    line = json.loads(read_text(layout.trajectories(1)))
    line["members"][1]["logprobs"][0] = float(value)
    write_text(layout.trajectories(1), "\n" + json.dumps(line) + "\n")
    with pytest.raises(GraftError, match=rf"trajectories\.jsonl:2: {why}"):
        read_all(policy, layout)


def test_an_empty_completion_and_an_empty_prompt_are_named(policy: Policy, trajectory: RewardedTrajectory) -> None:
    nothing = changed(trajectory, tokens=[], logprobs=[], code=" \n")
    assert invalid_completions(policy, WORKFLOW, nothing) == {1: "is empty"}
    ended_at_once = changed(trajectory, tokens=[1], logprobs=[-0.5], code="")
    assert invalid_completions(policy, WORKFLOW, ended_at_once) == {}
    assert invalid_completions(policy, WORKFLOW, changed_group(trajectory, prompt_tokens=[])).keys() == {0, 1, 2}


def test_another_tokenizer_is_noticed(policy: Policy, make_policy: MakePolicy, trajectory: RewardedTrajectory) -> None:
    from tasks.bootstrap.tokenizer import train_tokenizer

    other = make_policy()
    other.tokenizer = train_tokenizer(["xyz zyx yxz problems return return return"], 300)
    tokens = encode_completion(other, CODE)
    theirs = changed(trajectory, tokens=tokens, logprobs=[-1.0] * len(tokens))
    assert invalid_completions(other, WORKFLOW, theirs) == {}
    assert invalid_completions(policy, WORKFLOW, theirs).keys() == {1}


def test_what_another_policy_wrote_is_named(policy: Policy, trajectory: RewardedTrajectory, layout: Layout) -> None:
    write_rewarded(layout.trajectories(1), [trajectory, changed_group(trajectory, policy_version="other")])
    with pytest.raises(GraftError, match=r"jsonl:2: policy_version: 'other' .* search@1 collect@1 reward@1"):
        read_all(policy, layout)
