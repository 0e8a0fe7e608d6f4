"""Packed attention equals masked attention, in value and gradient."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from tasks.model.hf_model import check_plain_softmax, use_attention
from tasks.model.sample import Sample
from tasks.model.scoring.layouts import collate_packed
from tasks.model.scoring.micro_batches import MIN_PREFIX
from tasks.model.scoring.packed_attention import packed_attention

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


@given(
    st.lists(st.tuples(st.integers(1, 5), st.lists(st.integers(1, 6), min_size=1, max_size=5)), min_size=1, max_size=4),
    st.sampled_from([0, MIN_PREFIX, MIN_PREFIX + 3]),
    st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_it_equals_masked_attention_in_value_and_gradient(lengths: Lengths, common: int, seed: int) -> None:
    """Whether the prompts have a common beginning, which is computed once, or none."""
    random = torch.Generator().manual_seed(seed)
    visible = sees(lengths, common)
    shape = (1, len(visible), KV * GROUP, SIZE)
    drawn = [torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(4)]
    above, given = drawn[0], [drawn[1], drawn[2][:, :, :KV], drawn[3][:, :, :KV]]
    results = []
    for packed in (True, False):
        query, key, value = (x.transpose(1, 2).detach().requires_grad_() for x in given)
        if packed:
            places = collate_packed(groups_of(lengths, common), torch.float64).attention
            found = packed_attention(query, key, value, places, 0.6)
        else:
            wide = [x.repeat_interleave(GROUP, 1) for x in (key, value)]
            found = scaled_dot_product_attention(query, *wide, attn_mask=visible, scale=0.6).transpose(1, 2)
        results.append([found, *torch.autograd.grad((found * above).sum(), [query, key, value])])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


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
