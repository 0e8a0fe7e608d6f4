"""Influence computed layer by layer holds the gradients of one layer at a time."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.select import sample_gradients
from tests.support.influence import adapter, checkpoint, measured, scorer_of


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


@pytest.mark.parametrize("similarity", ["dot", "local"])
def test_no_more_than_one_layers_gradients_are_held(
    similarity: str, policy: Policy, samples: list[Sample], others: list[Sample]
) -> None:
    """Of the rows of one micro-batch; of `local` one row's are, until the next one's."""
    sizes, rows = [weight.nbytes for weight in adapter(policy)], len(samples) + len(others)
    with watched() as bytes_:
        measured(scorer_of(policy, "rows"), samples, others, similarity=similarity, budget=1)
    assert bytes_["all"] >= rows * sum(sizes)
    held = max(len(samples), len(others)) * max(sizes)
    assert bytes_["most"] <= max(held, 0 if similarity == "dot" else 3 * sum(sizes))


@pytest.mark.usefixtures("lora_path")
def test_layers_that_gradient_checkpointing_computes_twice_come_once(
    policy: Policy, samples: list[Sample], others: list[Sample]
) -> None:
    scorer, sizes = scorer_of(policy, "rows"), [weight.nbytes for weight in adapter(policy)]
    expected, calls = measured(scorer, samples, others).samples, checkpoint(policy)
    with watched() as bytes_:
        found = measured(scorer, samples, others).samples
    assert len(calls) == 4  # for the direction and for the samples, each twice
    assert bytes_["all"] == (len(samples) + len(others)) * sum(sizes)
    assert bytes_["most"] == max(len(samples), len(others)) * max(sizes)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.influence == pytest.approx(theirs.influence, rel=1e-4, abs=1e-9)
