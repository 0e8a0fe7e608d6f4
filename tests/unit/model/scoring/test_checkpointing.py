"""Checkpointed layers give the same bits, in every layout, and keep a fraction of what a forward pass keeps."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch

from tasks.errors import GraftError
from tasks.model.cpu import limits
from tasks.model.layers.fast_layers import fast_layers
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring import packed_attention
from tasks.model.scoring.micro_batches import MicroBatch, RowLayout
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tasks.select.sample_gradients import collect_gradients
from tasks.update.compute import update_scorer
from tests.support.devices import choosing
from tests.support.policies import MakePolicy
from tests.support.stage_params import shipped_params
from tests.support.updates import gradient_of

LAYOUTS: tuple[RowLayout, ...] = ("packed", "rows", "completions")
LAYOUTS_AND_DEVICES = [*((layout, "cpu") for layout in LAYOUTS), ("packed", "cuda")]


def scorers(policy: Policy, samples: list[Sample], layout: RowLayout) -> list[Scorer]:
    """Without checkpointing and with it."""
    scorer = scorer_for(policy, samples, 0.7)
    scorer = with_constant_prompts(scorer, samples) if layout == "completions" else replace(scorer, layout=layout)
    return [scorer, replace(scorer, checkpointing=True)]


def loss(scorer: Scorer, batch: MicroBatch) -> torch.Tensor:
    scored = scorer.score(batch)
    weights = scored.logprobs.new_tensor([s.advantage for s in batch.samples])
    return ((scored.logprobs + 0.3 * scored.entropies).sum(1) * weights).sum()


def gradient(scorer: Scorer, policy: Policy, samples: list[Sample]) -> torch.Tensor:
    policy.model.zero_grad()
    with fast_layers(policy.model):
        for batch in scorer.batches(samples):
            loss(scorer, batch).backward()  # type: ignore[no-untyped-call]
    return gradient_of(policy)


@pytest.mark.parametrize(("kind", "chunked"), [("qwen2", True), ("gpt2", False)])
@pytest.mark.parametrize(("layout", "device_kind"), LAYOUTS_AND_DEVICES)
def test_the_gradient_is_the_same_to_the_bit(
    layout: RowLayout,
    device_kind: str,
    kind: str,
    chunked: bool,
    make_policy: MakePolicy,
    samples: list[Sample],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed_attention, "for_device", choosing(device_kind))
    if chunked:
        monkeypatch.setattr(limits, "LOGITS_BYTES", 7 * 300 * limits.LOGITS_COPIES * 4)
    policy = make_policy(kind)
    plain, checkpointed = (gradient(scorer, policy, samples) for scorer in scorers(policy, samples, layout))
    assert plain.abs().max() > 0.01
    assert torch.equal(plain, checkpointed)


@pytest.mark.parametrize("layout", ["rows", "completions"])
def test_gradients_of_samples_are_the_same_to_the_bit(layout: RowLayout, policy: Policy, samples: list[Sample]) -> None:
    """As influence takes them."""

    def values(scorer: Scorer, batch: MicroBatch) -> torch.Tensor:
        scored = scorer.score(batch)
        return (scored.logprobs + scored.entropies).sum(1)

    plain, checkpointed = (
        collect_gradients(policy.model, partial(values, scorer, scorer.batches(samples)[0]))
        for scorer in scorers(policy, samples, layout)
    )
    assert plain.keys() == checkpointed.keys()
    assert all(torch.equal(own, checkpointed[name]) for name, own in plain.items())


@pytest.mark.parametrize(("layout", "device_kind"), LAYOUTS_AND_DEVICES)
def test_a_forward_pass_keeps_far_less(
    layout: RowLayout, device_kind: str, policy: Policy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_attention, "for_device", choosing(device_kind))

    def kept(scorer: Scorer) -> int:
        sizes: dict[int, int] = {}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        weights = {weight.untyped_storage().data_ptr() for weight in policy.model.parameters()}
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            held = loss(scorer, scorer.batches(samples)[0])
        assert held.requires_grad
        return sum(size for place, size in sizes.items() if place not in weights)

    plain, checkpointed = map(kept, scorers(policy, samples, layout))
    assert checkpointed < 0.5 * plain


def test_the_param_checkpoints_an_update(policy: Policy, samples: list[Sample]) -> None:
    found = [update_scorer(policy, samples, shipped_params(update={"checkpointing": own})) for own in (False, True)]
    assert [scorer.checkpointing for scorer in found] == [False, True]


def test_a_model_without_decoder_layers_is_refused(make_policy: MakePolicy, samples: list[Sample]) -> None:
    policy = make_policy(full=True)
    strange = replace(policy, model=_Strange(policy.model.forward))
    with pytest.raises(GraftError, match=r"update\.checkpointing: this model is not made of .*; set it to false"):
        scorer_for(strange, samples, 1.0, checkpointing=True)


class _Strange(torch.nn.Module):
    def __init__(self, forward: Callable[..., object]) -> None:
        super().__init__()
        self.forward = forward
