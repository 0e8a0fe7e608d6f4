"""Scores samples: log-probabilities and entropies of many completions, packed into one row where the model allows it.

Values and gradients of both layouts are the same to rounding. Whether a model computes packed rows correctly is found
out by a probe, not by its name.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.model.cpu.limits import TOKENS, Limits
from tasks.model.cuda.limits import CardLimits
from tasks.model.device import for_device
from tasks.model.distributed.collectives import all_gather
from tasks.model.hf_model import (
    CHECKPOINTING,
    as_forward,
    caught_hidden_states,
    checkpointed_layers,
    decoder_layers,
    float32_weights,
    forward_to_hidden,
    forward_to_logits,
    has_narrow_weights,
    unwrap_model,
)
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.device_copy import to_device
from tasks.model.scoring.layouts import ModelInputs, collate_completions, collate_packed, collate_rows
from tasks.model.scoring.micro_batches import MicroBatch, RowLayout, count_attention_pairs, make_micro_batches
from tasks.model.scoring.mismatch import mismatch_of
from tasks.model.scoring.packed_attention import use_packed_attention
from tasks.model.scoring.prompt_cache import PromptCache, use_prompt_attention
from tasks.model.scoring.token_scores import Temperatures, TokenIndex, TokenScores, score_tokens, score_values
from tasks.params.fields import MicroBatchTokens

SPARE = 1.1
"""Room in a part, so that filling parts with groups of unequal size does not make one part more than asked for."""

ATTENTIONS: dict[RowLayout, Callable[[Any], AbstractContextManager[None]]] = {
    "packed": use_packed_attention,
    "completions": use_prompt_attention,
}
"""The layouts that replace the model's attention."""

PROBE_PROMPTS, PROBE_COMPLETIONS, PROBE_COMPLETION = (24, 16), 4, 16
"""A probe: the last tokens of its two prompts, the completions of each and their first tokens that are computed."""

LARGE, LARGE_SHARE = 0.25, 0.1
"""A difference of a log-probability that 16 bits rarely make, at least and as a share of it: logits from 16
to 32 have a spacing of 0.125."""

MOST_LARGE = 0.1
"""Share of a probe's tokens whose difference may be large. SmolLM2-135M in bfloat16 has 0 to 0.01."""

CPU_LIMITS = Limits()

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scorer:
    """Scores samples in a layout that the model computes correctly."""

    model: Any
    pad: int
    temperature: float  # of samples that have none
    layout: RowLayout = "packed"  # rows where packed ones would not fit in memory
    tokens: int = TOKENS  # of a micro-batch
    chunked_head: bool = True  # logits may be computed by the model's head from its hidden states
    bf16: bool = False  # matrix products in bfloat16 (torch's autocast)
    limits: Limits = CPU_LIMITS  # of the device
    checkpointing: bool = False  # layers keep their inputs alone for the backward pass
    prompts: PromptCache | None = None  # of layout completions
    value_head: Any = None  # a linear module from hidden states to one number; None: no values

    @property
    def trained(self) -> Any:
        """A module of all that an update trains: the model, and the value head if there is one."""
        return self.model if self.value_head is None else torch.nn.ModuleList([self.model, self.value_head])

    @property
    def row_layout(self) -> RowLayout:
        """The layout with a row for each sample, in which the samples' gradients can be separated."""
        return "rows" if self.layout == "packed" else self.layout

    def batches(self, samples: Sequence[Sample], parts: int = 1) -> list[MicroBatch]:
        """Micro-batches of at most `tokens` tokens, padding included (or one sample), all in one layout.

        At least `parts`, if there are samples enough. RowLayout and order are a function of the samples alone.
        """
        plan = self._plan(samples, self.tokens)
        if 0 < len(plan) < parts:
            share = round(SPARE * sum(batch.tokens for batch in plan) / parts)
            plan = self._plan(samples, min(self.tokens, share))
        return plan

    def _plan(self, samples: Sequence[Sample], tokens: int) -> list[MicroBatch]:
        """Packed rows, fewer in one where attention takes much memory; rows where a single sample takes too much."""
        most = self.limits.attention_pairs(_config(self.model), _itemsize(self.model))
        plan = make_micro_batches(self.layout, samples, tokens, most)
        if self.layout == "packed" and any(count_attention_pairs(batch.groups) > most for batch in plan):
            return make_micro_batches("rows", samples, tokens)
        return plan

    def score(self, batch: MicroBatch) -> TokenScores:
        """Log-probabilities, entropies and values of the batch's samples, in their order; [R, C]."""
        collated = self.collate(batch)
        if self.value_head is None:
            return self._score(batch, collated)
        with caught_hidden_states(self.model) as caught:  # one pass gives logits and values
            scored = self._score(batch, collated)
        hidden = collated.predict(as_forward(caught[0]))
        return replace(scored, values=score_values(hidden, collated.index, self.value_head))

    def _score(self, batch: MicroBatch, collated: ModelInputs) -> TokenScores:
        most = self.limits.logits(_config(self.model))
        with self._forward(batch):
            temperature = self._temperature(batch.samples, collated.index)
            if collated.predictions <= most or not self.chunked_head:
                return score_tokens(collated.predict(forward_to_logits(self.model)), collated.index, temperature)
            forward, head = forward_to_hidden(self.model)
            return score_tokens(collated.predict(forward), collated.index, temperature, head, most)

    @contextmanager
    def _forward(self, batch: MicroBatch) -> Iterator[None]:
        """The attention of the batch's layout, and the precision."""
        replaced, model = ATTENTIONS.get(batch.layout, lambda _: nullcontext()), unwrap_model(self.model)
        attention = partial(replaced, model)
        with (
            attention(),
            checkpointed_layers(model, attention) if self.checkpointing else nullcontext(),
            torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.bf16),
        ):
            yield

    def _temperature(self, samples: Sequence[Sample], index: TokenIndex) -> Temperatures:
        """One number where all samples have the same temperature, else one for each of N tokens."""
        temperatures = [self.temperature if s.temperature is None else s.temperature for s in samples]
        if len(set(temperatures)) == 1:
            return temperatures[0]
        (by_sample,) = to_device([torch.tensor(temperatures)], index.places.device)
        return by_sample[index.places[0]]

    def collate(self, batch: MicroBatch) -> ModelInputs:
        """The batch's samples as tensors."""
        if batch.layout == "completions":
            assert self.prompts is not None
            return collate_completions(batch.samples, self.prompts, self.pad, self.model.device)
        if batch.layout == "packed":
            return collate_packed(batch.groups, self.model.device)
        return collate_rows(batch.samples, self.pad, self.model.device)


def scorer_for(
    policy: Policy,
    samples: Sequence[Sample],
    temperature: float,
    tokens: MicroBatchTokens = "auto",
    bf16: bool = False,
    checkpointing: bool = False,
) -> Scorer:
    """A scorer for these samples, probed on short ones: packed rows must agree with padded rows, chunks with logits.

    `tokens` of a micro-batch; auto: as many as the device has memory for.
    It is the same in all processes. Raises GraftError where the model computes even padded rows wrongly, or has no
    layers to checkpoint.
    """
    if checkpointing:
        decoder_layers(policy.model, CHECKPOINTING)
    model, probe = policy.model, _probe_samples(samples)
    limits = min(all_gather(for_device(model.device, cpu=Limits.of, cuda=CardLimits.of)(model.device)))
    if tokens == "auto":
        size = sum(weight.nbytes for weight in model.parameters())
        tokens = limits.tokens(_config(model), _itemsize(model), size, checkpointing)
    rows = Scorer(model, policy.tokenizer.pad_token_id, temperature, "rows", tokens, False, limits=limits)
    probed = replace(rows, temperature=1.0)  # at which a difference of logits is one of log-probabilities
    if fault := _padding_fault(probed, probe):
        raise GraftError(f"policy.base: this model cannot be trained, on rows with padding {fault}; take another")
    if fault := _rounding_fault(probed, probe):
        raise GraftError(f"policy.base: this model cannot be trained in 16 bits, {fault}; set policy.dtype to float32")
    packed = replace(probed, layout="packed")
    fault = _window_fault(model, samples) or _layout_fault(packed, "packed", probe) or _rounding_fault(packed, probe)
    if fault:
        logger.warning("samples are not computed as packed rows, the update may be slower: %s", fault)
    layout: RowLayout = "rows" if fault else "packed"
    chunked_head = tokens > limits.logits(_config(model))
    if chunked_head and (fault := _head_fault(probed, probe)):
        logger.warning("all logits of a micro-batch are held at once, which takes memory: %s", fault)
        chunked_head = False
    layout, chunked_head = all_gather((layout, chunked_head))[0]
    return replace(rows, layout=layout, chunked_head=chunked_head, bf16=bf16, checkpointing=checkpointing)


def with_constant_prompts(scorer: Scorer, samples: Sequence[Sample]) -> Scorer:
    """The scorer with the keys and values of the samples' prompts as constants, those of the present weights.

    Scores are the same; their gradients are those of the completions' positions. Where the model's attention cannot be
    replaced, it is the scorer as it was.
    """
    probe = _probe_samples(samples)
    probed = replace(scorer, temperature=1.0)
    fault = _window_fault(scorer.model, samples) or _layout_fault(probed, "completions", probe)
    if fault := all_gather(fault)[0]:
        logger.warning("gradients are those of the prompts' positions, too, which takes longer: %s", fault)
        return scorer
    longest = max(len(s.prompt) + len(s.completion) for s in samples)
    config, itemsize = _config(scorer.model), _itemsize(scorer.model)
    tokens = scorer.limits.completion_tokens(config, itemsize, longest, scorer.tokens)
    return _with_cache(replace(scorer, tokens=tokens), samples)


def _with_cache(scorer: Scorer, samples: Sequence[Sample]) -> Scorer:
    prompts = PromptCache(scorer.model, [s.prompt for s in samples], scorer.tokens)
    return replace(scorer, layout="completions", prompts=prompts)


def _config(model: Any) -> Any:
    return unwrap_model(model).config.get_text_config()


def _itemsize(model: Any) -> int:
    return int(next(model.parameters()).itemsize)


def _padding_fault(scorer: Scorer, samples: Sequence[Sample]) -> str | None:
    """Why padded rows are wrong for the model, or None where they agree with unpadded ones."""

    def difference(batch: MicroBatch) -> Tensor:
        unpadded = [scorer.score(MicroBatch("rows", [[s]])).logprobs[0] for s in batch.samples]
        padded = scorer.score(batch)
        return padded.logprobs[padded.mask] - torch.cat(unpadded)

    return _compare(scorer.model, [MicroBatch("rows", [[s] for s in samples])] if samples else [], difference)


def _probe_samples(samples: Sequence[Sample]) -> list[Sample]:
    """The beginnings of a few completions: some of each of two prompts, whose ends are of different lengths."""
    prompts = list(dict.fromkeys(s.prompt for s in samples))[:2]
    return [
        replace(s, prompt=prompt[-length:], completion=s.completion[:PROBE_COMPLETION], kept=(), temperature=None)
        for prompt, length in zip(prompts, PROBE_PROMPTS, strict=False)
        for s in [s for s in samples if s.prompt == prompt][:PROBE_COMPLETIONS]
    ]


def _window_fault(model: Any, samples: Sequence[Sample]) -> str | None:
    """Why samples cannot be packed for a model whose attention has a window, or None."""
    window = getattr(model.config, "sliding_window", None)
    if window and any(len(s.prompt) + len(s.completion) > window for s in samples):
        return f"the model attends to no more than {window} tokens"
    return None


def _layout_fault(scorer: Scorer, layout: RowLayout, samples: Sequence[Sample]) -> str | None:
    """Why a layout, packed or completions after a cache, is wrong for the model, or None where it agrees with rows."""

    def difference(batch: MicroBatch) -> Tensor:
        rows = scorer.score(MicroBatch("rows", [[s] for s in batch.samples]))
        in_layout = _with_cache(scorer, batch.samples) if layout == "completions" else scorer
        return (in_layout.score(batch).logprobs - rows.logprobs)[rows.mask]

    return _compare(scorer.model, make_micro_batches(layout, samples, scorer.tokens)[:3], difference)


def _head_fault(scorer: Scorer, samples: Sequence[Sample]) -> str | None:
    """Why logits from the hidden states are not the model's own, or None where they are."""

    def difference(batch: MicroBatch) -> Tensor:
        collated, (forward, head) = scorer.collate(batch), forward_to_hidden(scorer.model)
        by_head = score_tokens(collated.predict(forward), collated.index, scorer.temperature, head, len(batch.samples))
        return (by_head.logprobs - scorer.score(batch).logprobs)[by_head.mask]

    return _compare(scorer.model, scorer.batches(samples)[:3], difference)


def _rounding_fault(scorer: Scorer, samples: Sequence[Sample]) -> str | None:
    """Why the numbers of weights of 16 bits are wrong in the scorer's layout, or None where they are those of the same
    weights in float32, but for rounding. How much that is for the policy's own tokens is sampler_check.py's law."""
    if not has_narrow_weights(scorer.model):
        return None

    def difference(batch: MicroBatch) -> Tensor:
        scored = scorer.score(batch)
        with float32_weights(scorer.model):
            exact = scorer.score(batch)
        sizes = (scored.logprobs - exact.logprobs).abs()
        return sizes[scored.mask] / (exact.logprobs.abs() * LARGE_SHARE).clamp(min=LARGE)[scored.mask]

    sizes, fault = _differences(make_micro_batches(scorer.layout, samples, scorer.tokens), difference)
    if fault or not sizes:
        return fault
    share = 1 - sum(size <= 1 for size in sizes) / len(sizes)
    if share <= MOST_LARGE:
        return None
    return f"{share:.0%} of its log-probabilities are not those of float32"


def _compare(model: Any, batches: Sequence[MicroBatch], difference: Callable[[MicroBatch], Tensor]) -> str | None:
    """What is wrong where these micro-batches are computed in two ways, or None.

    Both ways are in float32, whatever the type of the weights: so rounding hides no fault. Where a library computes
    with weights of fewer bits in its own way, they are only held to the law of 16 bits.
    """
    with float32_weights(model):
        differences, fault = _differences(batches, difference)
    if fault or not differences:
        return fault
    is_exact = not has_narrow_weights(model) or all(weight.is_floating_point() for weight in model.parameters())
    mismatch = mismatch_of(differences)
    return None if mismatch.is_lawful(in_float32=is_exact) else f"it differs {mismatch}"


def _differences(
    batches: Sequence[MicroBatch], difference: Callable[[MicroBatch], Tensor]
) -> tuple[list[float], str | None]:
    """The differences of all tokens, and why the model cannot compute them, or None."""
    try:
        with torch.no_grad():
            return [value for batch in batches for value in difference(batch).tolist()], None
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        return [], f"the model refuses it ({str(error).strip().splitlines()[0]})"
