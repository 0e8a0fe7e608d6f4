"""Reference log-probabilities of completions: by one forward pass over padded rows, or of one row alone."""

from collections.abc import Sequence
from typing import Any

import torch

from tasks.model.decoding.token_draw import token_logprobs
from tasks.model.sample import Sample
from tasks.model.scoring.layouts import PaddedBatch, collate


def completion_logprobs(model: Any, batch: PaddedBatch, temperature: float) -> torch.Tensor:
    """[B, C], 0 where the mask is False. Position t's logits predict token t + 1."""
    inputs = {"input_ids": batch.ids, "attention_mask": batch.attention, "position_ids": batch.positions}
    width = batch.mask.shape[1]
    logits = model(**inputs, use_cache=False).logits[:, -width - 1 : -1]
    return token_logprobs(logits, batch.ids[:, -width:], temperature) * batch.mask


def sample_logprobs(model: Any, samples: Sequence[Sample], temperature: float) -> torch.Tensor:
    """The same for samples, [R, C]."""
    batch = collate([list(s.prompt) for s in samples], [list(s.completion) for s in samples], pad=0)
    return completion_logprobs(model, batch, temperature)


def unpadded_logprobs(model: Any, sample: Sample, temperature: float) -> torch.Tensor:
    """Of a sample's completion, alone in its row: ids[1:] under logits[:-1], kept from the prompt's length - 1."""
    ids = torch.tensor([[*sample.prompt, *sample.completion]], device=model.device)
    logprobs = (model(input_ids=ids).logits[0, :-1] / temperature).log_softmax(-1)
    return logprobs.gather(-1, ids[0, 1:, None])[len(sample.prompt) - 1 :, 0].cpu()
