"""The stage `select` uses no sample of a server whose numbers are not the policy's, and records those that are."""

from typing import Any

import pytest

from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.sampler_check import score_rows
from tasks.records.search import Engine
from tasks.select.task import run
from tests.support.groups import changed, read_rewarded, write_rewarded
from tests.support.policies import MakeTrajectory
from tests.support.selection_params import numbers, params
from tests.support.stage_params import SHIPPED

ENGINE = Engine(name="vllm", version="0.32.0", dtype="float32")
TOKENS = [[5, 6, 7, 1], [8, 9, 1]]


@pytest.fixture
def sampled(layout: Layout, make_trajectory: MakeTrajectory) -> Layout:
    """Round 1 with the log-probabilities of the policy itself, by a server."""
    policy = load_policy(layout.policy(0))
    found = []
    for name in ("t0", "t1"):
        rewarded = make_trajectory(name, [1.0, 0.0], tokens=TOKENS)
        prompt = tuple(rewarded.trajectory.prompt_tokens)
        rows = [Sample(name, m, prompt, tuple(tokens), (), 0.0) for m, tokens in enumerate(TOKENS)]
        scorer = scorer_for(policy, rows, SHIPPED.search.temperature, 2048)
        logprobs = [[round(x, 6) for x in row] for row in score_rows(scorer, rows)]
        found.append(changed(rewarded, logprobs=logprobs, engine=ENGINE))
    write_rewarded(layout.trajectories(1), found)
    return layout


def change(layout: Layout, **fields: Any) -> None:
    path = layout.trajectories(1)
    write_rewarded(path, [changed(rewarded, **fields) for rewarded in list(read_rewarded(path))])


def test_the_mismatch_of_a_right_server_is_in_the_metrics(sampled: Layout) -> None:
    run(sampled, params(selection="none"), 1)
    found = {name: value for name, value in numbers(sampled).items() if name.startswith("sampler/")}
    assert found.pop("sampler/gap_max") < 1e-5
    assert found.keys() == {
        "sampler/gap_mean", "sampler/kl", "sampler/bounded_weights", "sampler/rows", "sampler/vllm-0.32.0-float32"
    }  # fmt: skip
    assert found["sampler/rows"] == 4


def test_a_wrong_server_stops_the_stage_before_it_writes(sampled: Layout) -> None:
    change(sampled, logprobs=[[-1.0] * 4, [-1.0] * 3])
    with pytest.raises(GraftError, match=r"^sampler: .* vllm 0\.32\.0 float32 gave for round 1 are not the policy's"):
        run(sampled, params(selection="none"), 1)
    assert not sampled.selection(1).exists()
    assert not sampled.metrics("select", 1).exists()


def test_what_graft_sampled_is_held_to_the_same_law(sampled: Layout) -> None:
    change(sampled, engine=None)
    run(sampled, params(selection="none"), 1)
    assert numbers(sampled)["sampler/gap_max"] < 1e-5
    change(sampled, logprobs=[[-1.0] * 4, [-1.0] * 3])
    with pytest.raises(GraftError, match=r"^sampler: the log-probabilities recorded in round 1 are not the policy's"):
        run(sampled, params(selection="none"), 1)
