"""Influence computed layer by layer equals that of gradients held for all layers, and holds one layer's at a time."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.select import gradient_passes, sample_gradients
from tasks.select.sample_gradients import lora_factors, stream_gradients
from tests.support.influence import adapter, checkpoint, measured, scorer_of, uneven_model
from tests.support.policies import MakePolicy, MakeSamples

HELD, STREAMED = 2**30, 1
"""Budgets: in the same batch all gradients fit, or none does."""


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("kind", ["gpt2", "llama"], ids=["hooks", "merged"])
def test_computed_layer_by_layer_influence_is_the_same(
    kind: str, similarity: Any, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    scorer, samples = scorer_of(make_policy(kind, "float64"), "rows"), make_samples(problems=6)
    held, streamed = (
        measured(scorer, samples, None, similarity=similarity, budget=size).each for size in (HELD, STREAMED)
    )
    size = max(abs(s.influence or 0) for s in held)
    for ours, theirs in zip(streamed, held, strict=True):
        assert ours.influence == pytest.approx(theirs.influence, rel=1e-9, abs=1e-10 * size)
        assert ours.product == pytest.approx(theirs.product, rel=1e-9, abs=1e-15)
        assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-9)


@contextmanager
def watched() -> Iterator[dict[str, int]]:
    """`now` and `most` bytes of per-sample gradients that are alive, and `all` that are ever made."""
    bytes_, outer = {"now": 0, "most": 0, "all": 0}, sample_gradients._outer

    def gone(size: int) -> None:
        bytes_["now"] -= size

    def made(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        own = outer(gradient, x)
        bytes_["now"] += own.nbytes
        bytes_["all"] += own.nbytes
        bytes_["most"] = max(bytes_["most"], bytes_["now"])
        weakref.finalize(own, gone, own.nbytes)
        return own

    with patch.object(sample_gradients, "_outer", made):
        yield bytes_


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("same_batch", [False, True])
def test_no_more_than_one_layers_gradients_are_held(
    same_batch: bool, similarity: Any, policy: Policy, samples: list[Sample], others: list[Sample]
) -> None:
    """Of the rows of one micro-batch; but for the direction of cosines, where a row's are until the next one's."""
    sizes, scorer = [weight.nbytes for weight in adapter(policy)], scorer_of(policy, "rows")
    with watched() as bytes_:
        measured(scorer, samples, None if same_batch else others, similarity=similarity, budget=STREAMED)
    assert bytes_["all"] == len(samples) * (1 if similarity == "dot" else 2) * sum(sizes)
    assert bytes_["most"] <= max(len(samples) * max(sizes), 2 * sum(sizes) if similarity != "dot" else 0)
    with watched() as bytes_:
        measured(scorer, samples, None, similarity=similarity, budget=HELD)
    assert bytes_["most"] == bytes_["all"] == len(samples) * sum(sizes)


def test_a_small_budget_does_not_cut_micro_batches(policy: Policy, samples: list[Sample], others: list[Sample]) -> None:
    sums = gradient_passes.GradientPasses._sums
    for budget in (HELD, STREAMED):
        with patch.object(gradient_passes.GradientPasses, "_sums", autospec=True, side_effect=sums) as counted:
            measured(scorer_of(policy, "rows"), samples, others, budget=budget)
        assert [len(call.args[1].samples) for call in counted.call_args_list] == [len(samples)]


@pytest.mark.usefixtures("lora_path")
def test_each_layer_comes_once_with_the_sum_of_its_calls() -> None:
    model, ids = uneven_model(), torch.randint(20, (4, 3))
    factors, layers = lora_factors(model), list[tuple[str, torch.Tensor]]()
    assert stream_gradients(model, lambda: [model(ids)], [lambda name, own: layers.append((name, own))]) == 4
    assert len(layers) == 6
    assert {name for name, _ in layers} == {name for name in factors if "never" not in name}
    for row in range(4):
        for name, own in layers:
            (expected,) = torch.autograd.grad(model(ids[row : row + 1]).sum(), [factors[name].weight])
            torch.testing.assert_close(own[row], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("lora_path")
def test_layers_that_gradient_checkpointing_computes_twice_come_once(
    policy: Policy, samples: list[Sample], others: list[Sample]
) -> None:
    scorer, sizes = scorer_of(policy, "rows"), [weight.nbytes for weight in adapter(policy)]
    expected, calls = measured(scorer, samples, others).each, checkpoint(policy)
    with watched() as bytes_:
        found = measured(scorer, samples, others).each
    assert len(calls) == 4  # for the direction and for the samples, each twice
    assert (bytes_["all"], bytes_["most"]) == (len(samples) * sum(sizes), len(samples) * max(sizes))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.influence == pytest.approx(theirs.influence, rel=1e-4, abs=1e-9)
