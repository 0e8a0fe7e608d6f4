"""The stage `update` with algorithm ppo and a real policy folder."""

import csv
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tasks.artifacts import digest_path, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.scoring.scorer import Scorer
from tasks.objective.groups import samples_in
from tasks.objective.recorded_logprobs import score_samples
from tasks.params.params import Params
from tasks.update.task import run
from tests.support.groups import changed, write_rewarded
from tests.support.policies import MakeTrajectory
from tests.support.selections import selected
from tests.support.stage_params import stage_params
from tests.support.update_params import grpo_params
from tests.support.updates import sample_groups

TOKENS = [[5, 6, 7, 1], [8, 1], [9, 9, 9]]
REWARDS: list[float | None] = [1.0, 0.0, 0.5]


def params(**changes: Any) -> Params:
    update = {"epochs": 2, "prompts_per_step": 2, "beta": 0.05} | changes.pop("update", {})
    return stage_params("update", algorithm="ppo", update=update, **changes)


@pytest.fixture
def write_round(make_trajectory: MakeTrajectory) -> Callable[..., None]:
    """write_round(layout, number): its rewarded trajectories and their selection.

    Tokens were drawn by nearly the policy of the round before, alternately with more and less probability.
    """

    def write(layout: Layout, number: int, **fields: Any) -> None:
        policy = load_policy(layout.policy(number - 1))
        given = [make_trajectory(f"p{n}", REWARDS, tokens=TOKENS) for n in range(4)]
        samples = samples_in(sample_groups(policy, given, grpo_params()))
        scores = score_samples(Scorer(policy.model, policy.tokenizer.pad_token_id, temperature=1.0), samples)
        for place, t in enumerate(given):
            own = [scores[t.trajectory.problem_id, member].tolist() for member in range(len(TOKENS))]
            near = [[x + 0.1 * (-1) ** at for at, x in enumerate(row)] for row in own]
            given[place] = changed(t, **{"policy_version": policy.version, "logprobs": near} | fields)
        write_rewarded(layout.trajectories(number), given)
        write_jsonl(layout.selection(number), [line for t in given for line in selected(t, [1.0, 1.0, 1.0])])

    return write


@pytest.fixture
def layout(tmp_path: Path, save_tiny: Callable[..., None], write_round: Callable[..., None]) -> Layout:
    layout = Layout(tmp_path)
    save_tiny(layout.policy(0), fresh=True)
    write_round(layout, 1)
    return layout


def test_the_head_is_in_the_folder_of_the_policy_and_goes_from_round_to_round(
    layout: Layout, write_round: Callable[..., None]
) -> None:
    run(layout, params(), 1)
    first = load_file(layout.value_head(1))
    assert first["weight"].any()
    rows = list(csv.DictReader(layout.steps(1).read_text().splitlines()))
    assert float(rows[0]["value"]) == 0  # of the first round: V = 0
    write_round(layout, 2)
    run(layout, params(), 2)
    rows = list(csv.DictReader(layout.steps(2).read_text().splitlines()))
    assert float(rows[0]["value"]) != 0
    assert not torch.equal(load_file(layout.value_head(2))["weight"], first["weight"])
    found = json.loads(layout.metrics("update", 2).read_text())
    assert {"value_loss", "explained_variance", "kl", "clip_fraction"} <= found.keys()
    assert found["first_ratio"] == pytest.approx(1, abs=0.1)


@pytest.mark.usefixtures("plain_advantages")
def test_samples_with_the_reward_0_are_learned_from_too(layout: Layout) -> None:
    """With V = 0, no KL and nothing whitened they have no advantage; their value has to be learned."""
    run(layout, params(update={"beta": 0.0}, ppo={"lam": 1.0}), 1)
    assert json.loads(layout.metrics("update", 1).read_text())["samples"] == 12


def test_each_param_does_something(layout: Layout) -> None:
    """As shipped but for λ = 1, where every reward reaches every token, and steps large enough to be clipped."""
    found = []
    for own in ({}, {"gamma": 0.5}, {"lam": 0.2}, {"clip": 0.01}, {"value_weight": 2.0}, {"value_rate": 0.001}, {}):
        run(layout, params(update={"learning_rate": 0.02, "epochs": 2, "beta": 0.3}, ppo={"lam": 1.0} | own), 1)
        found.append([digest_path(p) for p in (layout.policy(1), layout.steps(1), layout.metrics("update", 1))])
    assert found[0] == found[-1]  # the same bytes again
    assert all(first != second for part in zip(*found[:-1], strict=True) for first, second in combinations(part, 2))


def test_completions_of_the_tree_are_refused(layout: Layout, write_round: Callable[..., None]) -> None:
    write_round(layout, 1, proposer=["sample", "sample", "tree"])
    with pytest.raises(GraftError, match="completion 2 of problem 'p0' was written by tree, but alg") as error:
        run(layout, params(), 1)
    assert "\n" not in str(error.value)
    assert not layout.policy(1).exists()


def test_an_update_by_grpo_writes_no_head(layout: Layout) -> None:
    run(layout, stage_params("update", update={"epochs": 1}), 1)
    assert not layout.value_head(1).exists()
