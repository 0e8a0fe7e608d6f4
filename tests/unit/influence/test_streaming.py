"""Influence heard layer by layer is that of gradients held whole, and holds one layer's at a time."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from tasks.influence import gradient_passes as passes
from tasks.influence import sample_gradients
from tasks.influence.sample_gradients import lora_factors, stream_gradients
from tasks.influence.tracin import Influences, Measure, influences
from tasks.model.fast_layers import merged_lora as merged
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tests.support.validation import advantage_validation

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]

BY_TOKEN = TokenWeights("dapo", longest=64)
HELD, HEARD = 2**30, 1
"""Budgets: in the same batch all gradients fit, or none does."""


def found_for(policy: Policy, samples: list[Sample], others: list[Sample] | None, **measure: Any) -> Influences:
    """Without others, against the samples themselves."""
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7, "rows")
    judges = advantage_validation(others or samples, BY_TOKEN, same_batch=others is None)
    return influences(scorer, samples, BY_TOKEN, judges, Measure(**measure))


@pytest.mark.parametrize("exclude_self", [False, True])
@pytest.mark.parametrize("adam", [None, 2])
@pytest.mark.parametrize("similarity", ["dot", "cosine", "centred"])
@pytest.mark.parametrize("kind", ["gpt2", "llama"], ids=["hooks", "merged"])
def test_heard_layer_by_layer_it_is_the_same(
    kind: str, similarity: Any, adam: int | None, exclude_self: bool, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(kind, "float64"), make_samples(problems=6)
    measure = {"similarity": similarity, "adam": adam, "exclude_self": exclude_self}
    held, heard = (found_for(policy, samples, None, budget=budget, **measure).each for budget in (HELD, HEARD))
    size = max(abs(s.influence or 0) for s in held)
    for ours, theirs in zip(heard, held, strict=True):
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


@pytest.mark.parametrize("similarity", ["dot", "cosine", "centred"])
@pytest.mark.parametrize("same_batch", [False, True])
def test_no_more_than_one_layers_gradients_are_held(
    same_batch: bool, similarity: Any, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """Of the rows of one micro-batch; but for the direction of cosines, where a row's are until the next one's."""
    policy, samples, others = make_policy(), make_samples(), make_samples(seed=1)
    widest = max(module.weight.nbytes for module in lora_factors(policy.model).values())
    with watched() as bytes_:
        found_for(policy, samples, None if same_batch else others, similarity=similarity, budget=HEARD)
    one_row = sum(module.weight.nbytes for module in lora_factors(policy.model).values())
    rows = len(samples) * (1 if similarity == "dot" else 2)
    assert bytes_["all"] == rows * one_row
    assert bytes_["most"] <= max(len(samples) * widest, 2 * one_row if similarity != "dot" else 0)
    with watched() as bytes_:
        found_for(policy, samples, None, similarity=similarity, budget=HELD)
    assert bytes_["most"] == bytes_["all"] == len(samples) * one_row


def test_a_small_budget_does_not_cut_micro_batches(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples, others = make_policy(), make_samples(), make_samples(seed=1)
    sizes: dict[int, list[int]] = {HELD: [], HEARD: []}
    sums = passes.GradientPasses._sums
    for budget, found in sizes.items():

        def counted(own: passes.GradientPasses, batch: Any, found: list[int] = found) -> torch.Tensor:
            found.append(len(batch.samples))
            return sums(own, batch)

        with patch.object(passes.GradientPasses, "_sums", counted):
            found_for(policy, samples, others, budget=budget)
    assert sizes[HEARD] == sizes[HELD] == [len(samples)]


class Unlike(nn.Module):
    """A model that calls one adapted layer twice, one once for nothing, one once and another never."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.twice, self.vain, self.once, self.never = (nn.Linear(6, 6) for _ in range(4))
        self.config: dict[str, Any] = {}

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.vain(self.twice(self.embedding(input_ids)).tanh())
        self.vain(x)
        return self.once(self.twice(x)).square().sum((1, 2))  # type: ignore[no-any-return]


@pytest.mark.parametrize("known", [True, False], ids=["merged", "hooks"])
def test_a_layer_is_heard_once_with_the_sum_of_its_calls(known: bool) -> None:
    torch.manual_seed(0)
    config = LoraConfig(r=2, target_modules=["twice", "vain", "once", "never"], init_lora_weights=False)
    model = get_peft_model(Unlike(), config).double()
    ids, factors = torch.randint(20, (4, 3)), lora_factors(model)
    heard: list[tuple[str, torch.Tensor]] = []
    with patch.object(merged, "MERGED_PARAMETERS", 500_000_000 if known else 0):
        assert stream_gradients(model, lambda: [model(ids)], [lambda name, own: heard.append((name, own))]) == 4
    assert len(heard) == 6
    assert {name for name, _ in heard} == {name for name in factors if "never" not in name}
    for row in range(4):
        for name, own in heard:
            (expected,) = torch.autograd.grad(model(ids[row : row + 1]).sum(), [factors[name].weight])
            torch.testing.assert_close(own[row], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("known", [True, False], ids=["merged", "hooks"])
def test_layers_that_are_computed_again_are_heard_once(
    known: bool, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """Gradient checkpointing, which transformers does in training mode; no layer here has dropout."""
    policy, samples, others = make_policy(), make_samples(), make_samples(seed=1)
    with patch.object(merged, "MERGED_PARAMETERS", 500_000_000 if known else 0):
        expected = found_for(policy, samples, others).each
        policy.model.gradient_checkpointing_enable({"use_reentrant": False})
        policy.model.train()
        calls: list[int] = []
        policy.model.get_base_model().model.layers[0].mlp.register_forward_pre_hook(lambda *_args: calls.append(1))
        with watched() as bytes_:
            found = found_for(policy, samples, others).each
    assert len(calls) == 4  # for the direction and for the samples, each twice
    factors = [module.weight.nbytes for module in lora_factors(policy.model).values()]
    assert (bytes_["all"], bytes_["most"]) == (len(samples) * sum(factors), len(samples) * max(factors))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.influence == pytest.approx(theirs.influence, rel=1e-4, abs=1e-9)
