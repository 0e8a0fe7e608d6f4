"""Law: several processes give the gradient of one, each of them the whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.model.distributed.collectives import all_gather, backward, gather_parts, local_part, rank, world_size
from tasks.model.distributed.sharding import shard_base
from tasks.model.policy import Policy, load_policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import Layout
from tasks.model.scoring.scorer import Scorer
from tasks.objective.recorded_logprobs import Logprobs, score_samples
from tasks.update.gradient import TokenSums, accumulate_gradient
from tests.support.critics import critic_scorer, random_head, with_token_targets
from tests.support.ppo_params import ppo_params
from tests.support.process_group import in_processes
from tests.support.tiers import nightly_but_first
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of, random_logprobs

Case = tuple[str, Layout, int, int, dict[str, Any]]
"""Policy folder, layout, tokens of a micro-batch, samples, params."""

EVERYTHING = {"beta": 0.05, "entropy": 0.1}
CASES: list[Case] = [
    (folder, layout, tokens, most, {"importance": importance, **EVERYTHING})
    for folder in ("adapter", "weights")
    for layout in ("packed", "rows")
    for importance in ("token", "sequence")
    for tokens, most in ((64, 21), (2048, 21), (2048, 2))
]


def totals(sums: TokenSums) -> dict[str, float]:
    """All totals by name, those of the values too."""
    return {**vars(sums), **{f"values/{name}": own for name, own in vars(sums.values).items()}, "values": 0.0}


def scorer_for(policy: Policy, layout: Layout, tokens: int) -> Scorer:
    return Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7, layout, tokens)


def steps_of(policies: dict[str, Policy], samples: list[Sample]) -> list[tuple[torch.Tensor, TokenSums, Logprobs]]:
    """Gradient, sums and scores of each case."""
    found = []
    for folder, layout, tokens, most, params in CASES:
        policy, own = policies[folder], samples[:most]
        policy.model.zero_grad()
        scorer = scorer_for(policy, layout, tokens)
        scores = random_logprobs(own, 1), random_logprobs(own, 2)
        sums = accumulate_gradient(scorer, groups_of(own), *scores, grpo_params(**params))
        gradient = torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None])
        found.append((gradient, sums, score_samples(scorer, own)))
    return found


def unlike_batches() -> tuple[list[int], list[torch.Tensor | None]]:
    """Each batch needs other weights, as in a mixture of experts; the last weight nobody needs."""
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.tensor(float(n + 1))) for n in range(6)])
    told = backward(model, [0, 1, 2, 3, 4, 0, 0], lambda n: (model[n] ** 2, lambda: n))
    return told, [p.grad for p in model]


def load(folder: Path) -> dict[str, Policy]:
    return {name: load_policy(folder / name) for name in ("adapter", "weights")}


def work(folder: Path, samples: list[Sample]) -> tuple[list[tuple[torch.Tensor, TokenSums, Logprobs]], Any]:
    assert gather_parts(local_part(range(7))) == list(range(7))
    assert all_gather(rank()) == list(range(world_size()))
    return steps_of(load(folder), samples), unlike_batches()


def ppo_steps(folder: Path, samples: list[Sample], sharded: bool = False) -> list[tuple[torch.Tensor, TokenSums]]:
    """Gradient of the adapter and of a value head, and sums, in both layouts."""
    policy = load_policy(folder / "adapter", shard=shard_base if sharded else None)
    ppo, found = ppo_params(lam=0.9), []
    layouts: list[Layout] = ["packed", "rows"]
    for layout in layouts:
        head = random_head(policy)
        scorer = critic_scorer(policy, head, layout, tokens=64)
        own = with_token_targets(scorer, samples, ppo)
        policy.model.zero_grad()
        sums = accumulate_gradient(scorer, groups_of(own), random_logprobs(own, 1), None, grpo_params(), ppo)
        trained = [*policy.model.parameters(), *head.parameters()]
        found.append((torch.cat([p.grad.flatten() for p in trained if p.grad is not None]), sums))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sharded", nightly_but_first([True, False]))
def test_several_processes_give_the_gradient_of_one_with_a_value_head(
    sharded: bool, tmp_path: Path, save_tiny: Callable[..., None], make_samples: Callable[..., list[Sample]]
) -> None:
    save_tiny(tmp_path / "adapter")
    samples = make_samples(problems=7)
    alone = ppo_steps(tmp_path, samples)
    for steps in in_processes(2, tmp_path, ppo_steps, tmp_path, samples, sharded):
        for (gradient, sums), (gradient_alone, sums_alone) in zip(steps, alone, strict=True):
            assert (gradient - gradient_alone).norm() <= 1e-5 * gradient_alone.norm()
            assert sums.loss == pytest.approx(sums_alone.loss, rel=1e-5)
            assert vars(sums.values) == pytest.approx(vars(sums_alone.values), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("processes", nightly_but_first([2, 3]))
def test_several_processes_give_the_gradient_of_one(
    processes: int,
    tmp_path: Path,
    save_tiny: Callable[..., None],
    make_samples: Callable[..., list[Sample]],
) -> None:
    save_tiny(tmp_path / "adapter")
    save_tiny(tmp_path / "weights", full=True)
    samples, policies = make_samples(problems=7), load(tmp_path)
    cut = {len(scorer_for(policies[n], layout, size).batches(samples[:most])) for n, layout, size, most, _ in CASES}
    assert min(cut) < processes < max(cut)
    assert any(number % processes for number in cut)
    alone, told_alone = steps_of(policies, samples), unlike_batches()
    found = in_processes(processes, tmp_path, work, tmp_path, samples)
    for steps, told in found:
        assert told == told_alone
        for (gradient, sums, scores), (gradient_alone, sums_alone, scores_alone) in zip(steps, alone, strict=True):
            assert (gradient - gradient_alone).norm() <= 1e-5 * gradient_alone.norm()
            assert totals(sums) == pytest.approx(totals(sums_alone), rel=1e-5, abs=1e-6)
            assert scores.keys() == scores_alone.keys()
            for key, row in scores.items():
                torch.testing.assert_close(row, scores_alone[key], atol=1e-5, rtol=0)
    for steps, _ in found[1:]:  # no process drifts away from the others
        for (ours, sums, own), (theirs, first_sums, first) in zip(steps, found[0][0], strict=True):
            assert torch.equal(ours, theirs)
            assert sums == first_sums  # an adaptive beta depends on them
            assert all(torch.equal(row, first[key]) for key, row in own.items())
