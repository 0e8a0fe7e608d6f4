"""Law: several processes give the gradient of one, each of them the whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.model.distributed.collectives import all_gather, backward, gather_parts, local_part, rank, world_size
from tasks.model.distributed.sharding import shard_base
from tasks.model.policy import load_policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import Layout
from tasks.update.gradient import TokenSums, accumulate_gradient
from tests.support.critics import critic_scorer, random_head, with_token_targets
from tests.support.ppo_params import ppo_params
from tests.support.process_group import in_processes
from tests.support.tiers import nightly_but_first
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of, random_logprobs


def unlike_batches() -> tuple[list[int], list[torch.Tensor | None]]:
    """Each batch needs other weights, as in a mixture of experts; the last weight nobody needs."""
    model = torch.nn.ParameterList([torch.nn.Parameter(torch.tensor(float(n + 1))) for n in range(6)])
    told = backward(model, [0, 1, 2, 3, 4, 0, 0], lambda n: (model[n] ** 2, lambda: lambda: n))
    return told, [p.grad for p in model]


def work(
    folder: Path, samples: list[Sample], sharded: bool = False
) -> tuple[list[tuple[torch.Tensor, TokenSums]], Any]:
    """Gradient of the adapter and of a value head, and sums, in both layouts; and that of unlike batches."""
    assert gather_parts(local_part(range(7))) == list(range(7))
    assert all_gather(rank()) == list(range(world_size()))
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
    return found, unlike_batches()


@pytest.mark.slow
@pytest.mark.parametrize("sharded", nightly_but_first([True, False]))
def test_several_processes_give_the_gradient_of_one_with_a_value_head(
    sharded: bool, tmp_path: Path, save_tiny: Callable[..., None], make_samples: Callable[..., list[Sample]]
) -> None:
    save_tiny(tmp_path / "adapter")
    samples = make_samples(problems=7)
    alone, told_alone = work(tmp_path, samples)
    for steps, told in in_processes(2, tmp_path, work, tmp_path, samples, sharded):
        assert told == told_alone
        for (gradient, sums), (gradient_alone, sums_alone) in zip(steps, alone, strict=True):
            assert (gradient - gradient_alone).norm() <= 1e-5 * gradient_alone.norm()
            assert sums.loss == pytest.approx(sums_alone.loss, rel=1e-5)
            assert vars(sums.values) == pytest.approx(vars(sums_alone.values), rel=1e-5)
