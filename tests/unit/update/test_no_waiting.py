"""No operation of a packed micro-batch waits for the device: on `meta` tensors have no values that could be read."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from tasks.model.cpu import limits
from tasks.model.sample import Sample
from tasks.model.scoring import logprobs, packed_attention
from tasks.model.scoring.device_copy import to_device
from tasks.model.scoring.scorer import Scorer
from tasks.update.gradient import _loss_of
from tests.support.devices import choosing
from tests.support.policies import MakePolicy
from tests.support.update_params import grpo_params
from tests.support.updates import random_logprobs


@pytest.mark.parametrize("chunked", [False, True])
def test_a_micro_batch_is_computed_where_nothing_can_be_read(
    chunked: bool, make_policy: MakePolicy, samples: list[Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # there is none for meta
    for module in (packed_attention, logprobs):  # with the operations of a card
        monkeypatch.setattr(module, "for_device", choosing("cuda"))
    if chunked:
        monkeypatch.setattr(limits, "LOGITS_BYTES", 7 * 300 * limits.LOGITS_COPIES * 4)
    samples = [replace(s, temperature=0.5 + 0.1 * s.member, token_weights=(0.5,) * len(s.completion)) for s in samples]
    recorded = random_logprobs(samples, 1)
    scorer = Scorer(make_policy().model.to("meta"), 0, 1.0)
    batch = scorer.batches(samples)[0]
    loss, measure = _loss_of(scorer, recorded, recorded, grpo_params(entropy=0.1, beta=0.1), None, 100, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    read = measure()
    trained = [weight for weight in scorer.model.parameters() if weight.requires_grad]
    assert all(weight.grad is not None and weight.grad.device.type == "meta" for weight in trained)
    with pytest.raises(RuntimeError, match="meta"):
        read()


def test_tensors_keep_their_shapes_and_types_on_another_device() -> None:
    sent = [torch.arange(6).view(2, 3), torch.tensor(4), torch.empty(0, 2, dtype=torch.long)]
    moved = to_device(sent, "meta")
    assert [(x.shape, x.dtype) for x in moved] == [(x.shape, x.dtype) for x in sent]
    assert {x.device.type for x in moved} == {"meta"}
    assert all(own is x for own, x in zip(to_device(sent, "cpu"), sent, strict=True))
