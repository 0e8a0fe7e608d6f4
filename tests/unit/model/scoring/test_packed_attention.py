"""Packed attention equals masked attention, in value and gradient, with the kernels of a CPU and those of a GPU."""

from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from tasks.model.decoding.growing_cache import MIN_PREFIX
from tasks.model.hf_model import check_plain_softmax, use_attention
from tasks.model.sample import Sample
from tasks.model.scoring import packed_attention as packed_attention_module
from tasks.model.scoring.layouts import collate_packed
from tasks.model.scoring.packed_attention import packed_attention
from tests.support.devices import choosing
from tests.support.updates import DENSE_OR_FUSED

KV, GROUP, SIZE = 2, 3, 4  # key-value heads, queries of each, numbers in each

ALL = -1
"""The owner of tokens that all prompts begin with."""

Lengths = list[tuple[int, list[int]]]


def groups_of(lengths: Lengths, common: int = 0) -> list[list[Sample]]:
    """The prompts have `common` tokens and then their own."""
    return [
        [Sample(str(d), m, (7,) * common + (d,) * prompt, (9,) * n, (), 1.0) for m, n in enumerate(completions)]
        for d, (prompt, completions) in enumerate(lengths)
    ]


def sees(lengths: Lengths, common: int = 0) -> torch.Tensor:
    """[N, N], from what the layout says it is: the common beginning, prompts without their last tokens, these, then
    completions."""
    tokens = [(ALL, 0, i - common) for i in range(common)]
    tokens += [(d, 0, i) for d, (prompt, _) in enumerate(lengths) for i in range(prompt - 1)]
    tokens += [(d, 0, prompt - 1) for d, (prompt, _) in enumerate(lengths)]
    for d, (prompt, completions) in enumerate(lengths):
        tokens += [(d, m, prompt + i) for m, n in enumerate(completions, start=1) for i in range(n - 1)]
    seen = [
        [e in (ALL, d) and branch in (0, own) and at <= place for e, branch, at in tokens] for d, own, place in tokens
    ]
    return torch.tensor(seen)


@pytest.mark.parametrize("device_kind", DENSE_OR_FUSED)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.lists(st.integers(1, 6), min_size=1, max_size=5)), min_size=1, max_size=4),
    st.sampled_from([0, MIN_PREFIX, MIN_PREFIX + 3]),
    st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_it_equals_masked_attention_in_value_and_gradient(
    device_kind: str, lengths: Lengths, common: int, seed: int
) -> None:
    """Whether the prompts have a common beginning, which is computed once, or none."""
    drawn = draw(lengths, common, seed)
    with patch.object(packed_attention_module, "for_device", choosing(device_kind)):
        results = packed(lengths, common, *drawn), masked(lengths, common, *drawn)
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("device_kind", DENSE_OR_FUSED)
@pytest.mark.parametrize("autocast", [False, True])
def test_in_bfloat16_it_differs_by_rounding_alone(device_kind: str, autocast: bool) -> None:
    lengths = [(5, [6, 1, 9]), (1, [4]), (30, [1, 1])]
    drawn = draw(lengths, MIN_PREFIX, 3)
    above, *given = [x.bfloat16() for x in drawn]
    if autocast:  # rotated queries and keys are wider than the values that autocast gave
        given[:2] = [x.float() for x in given[:2]]
    with (
        patch.object(packed_attention_module, "for_device", choosing(device_kind)),
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
    ):
        found = packed(lengths, MIN_PREFIX, above, *given)
    expected = masked(lengths, MIN_PREFIX, *(x.bfloat16().double() for x in drawn))
    for ours, theirs in zip(found, expected, strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < 0.01


def test_fused_kernels_may_give_outputs_of_any_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a GPU have the heads within a query."""

    def strided(*inputs: Any, **settings: Any) -> torch.Tensor:
        output = scaled_dot_product_attention(*inputs, **settings)
        return output.transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", strided)
    monkeypatch.setattr(packed_attention_module, "for_device", choosing("cuda"))
    lengths = [(5, [6, 1, 9]), (1, [4])]
    drawn = draw(lengths, MIN_PREFIX, 3)
    for ours, theirs in zip(packed(lengths, MIN_PREFIX, *drawn), masked(lengths, MIN_PREFIX, *drawn), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_fused_kernels_keep_no_weights() -> None:
    """What a forward pass keeps grows with the tokens, not with their pairs; the mask is there once for all layers."""
    lengths = [(64, [512] * 4)]
    with patch.object(packed_attention_module, "for_device", choosing("cuda")):
        index = collate_packed(groups_of(lengths)).inputs["packed_index"]
        shape = (1, len(index.queries), KV * GROUP, SIZE)
        query, key, value = (torch.zeros(shape)[:, :, :heads].transpose(1, 2).requires_grad_() for heads in (6, 2, 2))
        packed_attention(query, key, value, index, 1.0)  # makes the masks
        kept: dict[int, int] = {}

        def keep(x: torch.Tensor) -> torch.Tensor:
            kept[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        masks = {mask.untyped_storage().data_ptr() for b in (index.prompts, index.chunks) for mask in b._masks.values()}
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            held = packed_attention(query, key, value, index, 1.0)
        assert held.requires_grad
    assert sum(size for place, size in kept.items() if place not in masks) < 10 * query.nbytes
    assert masks <= kept.keys()


def draw(lengths: Lengths, common: int, seed: int) -> list[torch.Tensor]:
    """The gradient above, queries, keys and values, each [1, N, heads, SIZE]."""
    random = torch.Generator().manual_seed(seed)
    shape = (1, len(sees(lengths, common)), KV * GROUP, SIZE)
    above, query, key, value = (torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(4))
    return [above, query, key[:, :, :KV], value[:, :, :KV]]


def packed(lengths: Lengths, common: int, above: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
    """The output, and the gradients of query, key and value."""
    query, key, value = (x.transpose(1, 2).detach().requires_grad_() for x in given)
    output = packed_attention(query, key, value, collate_packed(groups_of(lengths, common)).inputs["packed_index"], 0.6)
    return [output.detach(), *torch.autograd.grad((output * above).sum(), [query, key, value])]


def masked(lengths: Lengths, common: int, above: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
    """The same by one dense attention over the row."""
    query, key, value = (x.transpose(1, 2).detach().requires_grad_() for x in given)
    wide = [x.repeat_interleave(GROUP, 1) for x in (key, value)]
    output = scaled_dot_product_attention(query, *wide, attn_mask=sees(lengths, common), scale=0.6).transpose(1, 2)
    return [output.detach(), *torch.autograd.grad((output * above).sum(), [query, key, value])]


@pytest.mark.parametrize("name", ["softcap", "s_aux"])
def test_attention_that_is_more_than_a_softmax_is_refused(name: str) -> None:
    check_plain_softmax({name: None, "dropout": 0.0})
    with pytest.raises(ValueError, match=f"its attention has {name}"):
        check_plain_softmax({name: 30.0})


def test_the_models_own_attention_is_back_after_the_block(make_policy: Any) -> None:
    model = make_policy().model.get_base_model()
    usual = model.config._attn_implementation
    with pytest.raises(ZeroDivisionError), use_attention(model, "test", lambda *_args: 1 / 0):
        model(input_ids=torch.tensor([[5]]), test=1)
    with pytest.raises(ValueError, match="hand test on"), use_attention(model, "test", lambda *_args: 1 / 0):
        model(input_ids=torch.tensor([[5]]))
    assert model.config._attn_implementation == usual
    model(input_ids=torch.tensor([[5]]))
