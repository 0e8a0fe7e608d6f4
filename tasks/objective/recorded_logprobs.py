"""Log-probabilities and values of an update's samples before its first step, for its importance ratio and its KL."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from tasks.model.distributed.collectives import gather_parts, local_steps, world_size
from tasks.model.hf_model import has_narrow_weights
from tasks.model.layers.fast_layers import fast_layers
from tasks.model.sample import Sample
from tasks.model.scoring.device_copy import to_device
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.model.scoring.scorer import Scorer

SampleKey = tuple[str, int]
"""problem_id and place in the group."""

Logprobs = dict[SampleKey, Tensor]
"""Log-probabilities [T] of samples, or other numbers of their tokens; on the CPU."""


def score_samples(
    scorer: Scorer, samples: Sequence[Sample], kind: Literal["logprobs", "values"] = "logprobs"
) -> Logprobs:
    """Log-probabilities of samples by the model as it is now, or their values, no gradient; all in every process."""

    def by_sample(batch: MicroBatch, rows: Tensor) -> Logprobs:
        pairs = zip(batch.samples, rows.cpu(), strict=True)
        return {sample_key(s): row[: len(s.completion)].clone() for s, row in pairs}

    with torch.no_grad(), fast_layers(scorer.model):
        computed = [
            (batch, getattr(scorer.score(batch), kind), counts)
            for batch, counts in local_steps(scorer.model, scorer.batches(samples, world_size()))
        ]
    parts = gather_parts([by_sample(batch, rows) for batch, rows, counts in computed if counts])
    return {key: row for scores in parts for key, row in scores.items()}


def behaviour_logprobs(scorer: Scorer, samples: Sequence[Sample], later: Sequence[Sample] | None = None) -> Logprobs:
    """Recorded log-probabilities; where a sample has none, the model's own as it is now.

    In 16 bits all are its own: compared with those that the sampler's kernels gave, no ratio would start at 1.
    `later`: the samples of the steps after the first, None: all. The model's own are left out for the others, as before
    the first step they are what the gradient computes (`pad_behaviour`).
    """
    narrow = scorer.bf16 or has_narrow_weights(scorer.model)
    known = [s for s in samples if s.behaviour and (s.token_weights or not narrow)]  # with weights they are its own
    recorded = {sample_key(s): torch.tensor(s.behaviour) for s in known}
    needed = {sample_key(s) for s in (samples if later is None else later)} - recorded.keys()
    unknown = [s for s in samples if sample_key(s) in needed]
    return recorded | (score_samples(scorer, unknown) if unknown else {})


def pad_logprobs(scores: Logprobs, samples: Sequence[Sample], like: Tensor) -> Tensor:
    """`pad_rows` of the samples' scores."""
    return pad_rows([scores[sample_key(s)] for s in samples], like)


def pad_rows(rows: Sequence[Tensor | Sequence[float]], like: Tensor) -> Tensor:
    """A number of each token of R samples as rows [R, C] of the shape, type and device of `like`, 0 where padded."""
    padded = torch.zeros(like.shape, dtype=like.dtype)
    for place, row in zip(padded, rows, strict=True):
        place[: len(row)] = torch.as_tensor(row, dtype=like.dtype)
    return to_device([padded], like.device)[0]


def pad_behaviour(behaviour: Logprobs, samples: Sequence[Sample], logprobs: Tensor) -> Tensor:
    """The denominators [R, C] of the samples' ratios; for a sample without one its present log-probabilities."""
    missing = {sample_key(s): torch.zeros(len(s.completion)) for s in samples if sample_key(s) not in behaviour}
    if len(missing) == len(samples):
        return logprobs.detach()
    padded = pad_logprobs(behaviour | missing, samples, logprobs)
    if not missing:
        return padded
    (known,) = to_device([torch.tensor([[sample_key(s) in behaviour] for s in samples])], logprobs.device)
    return torch.where(known, padded, logprobs.detach())


def sample_key(sample: Sample) -> SampleKey:
    return sample.problem_id, sample.member
