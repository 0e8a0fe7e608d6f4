"""Log-probabilities of many completions, in the layout that costs the model least.

Values and gradients of all layouts are the same to rounding. Whether a model computes one rightly, and what it is
asked for, is found out by trying, not by its name.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tasks.errors import GraftError
from tasks.model.distributed.collectives import gathered
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.hf_model import plain_model, run_to_hidden, run_to_logits
from tasks.model.scoring.layouts.packed import PackedBatch, collate_packed
from tasks.model.scoring.layouts.prefix import PrefixBatch, collate_prefixes
from tasks.model.scoring.layouts.rows import RowBatch, collate_rows
from tasks.model.scoring.layouts.tree import TreeBatch, collate_trees
from tasks.model.scoring.micro_batches import Layout, MicroBatch, packed, pairs_of
from tasks.model.scoring.packed_attention import packed_attending
from tasks.model.scoring.token_scores import Scored, read

if TYPE_CHECKING:
    from torch import Tensor

TOKENS = 2048
"""Tokens of a micro-batch, padding included. On a CPU larger ones are slower."""

LOGITS_BYTES = 2**30
"""A micro-batch whose logits take more makes them a few at a time: slower, because the gradient makes them again."""

WEIGHTS_BYTES = 2**30
"""A packed micro-batch keeps attention weights; where it were more bytes, another layout is taken."""

SPARE = 1.1
"""Room in a part, so that parts are filled with groups as they come and there is not one more than asked for."""

COPIES = 3
"""Copies of the logits that are held at once: as they come, scaled in float32, and their gradient."""

LAYOUTS: tuple[Layout, ...] = ("packed", "trees", "prefix")
"""Faster than rows, where the model computes them rightly."""

TRIED = 24
"""Samples that a layout is tried on."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scorer:
    """Scores samples in one of these layouts, each of which the model computes rightly."""

    model: Any
    pad: int
    temperature: float
    layouts: Sequence[Layout] = LAYOUTS
    tokens: int = TOKENS  # of a micro-batch
    by_head: bool = True  # its head makes the model's logits of its hidden states
    bf16: bool = False  # matrix products in bfloat16 (torch's autocast)

    def batches(self, samples: Sequence[Sample], parts: int = 1) -> list[MicroBatch]:
        """Micro-batches of at most `tokens` tokens, padding included (or one sample), all in the cheapest layout.

        As many as `parts` or more, where there are samples enough. Layout and order depend on nothing but the samples.
        """
        plan = self._cheapest(samples, self.tokens)
        if 0 < len(plan) < parts:
            share = round(SPARE * sum(batch.tokens for batch in plan) / parts)
            plan = self._cheapest(samples, min(self.tokens, share))
        return plan

    def _cheapest(self, samples: Sequence[Sample], tokens: int) -> list[MicroBatch]:
        plans = [packed(layout, samples, tokens) for layout in self.layouts]
        fit = [plan for plan in plans if all(map(self._holds, plan))]
        return min(fit or plans, key=self._cost)

    def _holds(self, batch: MicroBatch) -> bool:
        """Whether the attention weights that packed rows keep for their gradient fit in memory."""
        if batch.layout != "packed":
            return True
        config, size = plain_model(self.model).config.get_text_config(), next(self.model.parameters()).itemsize
        heads = config.num_attention_heads * config.num_hidden_layers
        return bool(heads * pairs_of(batch.layout, batch.groups) * size <= WEIGHTS_BYTES)

    def _cost(self, batches: Sequence[MicroBatch]) -> float:
        """Of computing them, in tokens."""
        return sum(batch.tokens + self._pair_cost * pairs_of(batch.layout, batch.groups) for batch in batches)

    @cached_property
    def _pair_cost(self) -> float:
        """What a pair of tokens in attention costs, in tokens: the ratio of their multiplications."""
        config = plain_model(self.model).config.get_text_config()
        weights = sum(p.numel() for p in self.model.parameters()) - self.model.get_input_embeddings().weight.numel()
        return float(2 * config.hidden_size * config.num_hidden_layers / weights)

    def score(self, batch: MicroBatch) -> Scored:
        """Log-probabilities and entropies of the batch's samples, in their order; [R, C]."""
        import torch

        laid, most = self._laid_out(batch), _most_logits(self.model)
        told = packed_attending(plain_model(self.model)) if batch.layout == "packed" else nullcontext()
        with told, torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.bf16):
            if laid.predictions <= most or not self.by_head:
                return read(laid.pieces(run_to_logits(self.model)), laid.aim, self.temperature)
            run, head = run_to_hidden(self.model)
            return read(laid.pieces(run), laid.aim, self.temperature, head, most)

    def _laid_out(self, batch: MicroBatch) -> PackedBatch | TreeBatch | PrefixBatch | RowBatch:
        device = self.model.device
        if batch.layout == "packed":
            return collate_packed(batch.groups, next(self.model.parameters()).dtype, device)
        if batch.layout == "trees":
            return collate_trees(batch.groups, self.pad, next(self.model.parameters()).dtype, device)
        if batch.layout == "prefix":
            return collate_prefixes(batch.groups, self.pad, device)
        return collate_rows(batch.samples, self.pad, device)


def scorer_of(policy: Policy, samples: Sequence[Sample], temperature: float, tokens: int = TOKENS) -> Scorer:
    """A scorer for these samples, with what agrees with rows and the model's own logits on the first few of them.

    It is the same in all processes. Raises GraftError where the model computes even padded rows wrongly.
    """
    rows = Scorer(policy.model, policy.tokenizer.pad_token_id, temperature, ("rows",), tokens, by_head=False)
    if fault := _row_fault(rows, samples):
        raise GraftError(f"policy.base: this model cannot be trained, on rows with padding {fault}; take another")
    right: list[Layout] = []
    for layout in LAYOUTS:
        if fault := _fault(replace(rows, layouts=(layout,)), samples):
            logger.warning("samples are not computed as %s, the update may be slower: %s", layout, fault)
        else:
            right.append(layout)
    by_head = tokens > _most_logits(policy.model)
    if by_head and (fault := _head_fault(rows, samples)):
        logger.warning("all logits of a micro-batch are held at once, which takes memory: %s", fault)
        by_head = False
    layouts, by_head = gathered((right or ["rows"], by_head))[0]
    return replace(rows, layouts=layouts, by_head=by_head)


def _most_logits(model: Any) -> int:
    """Predictions whose logits may be held at once."""
    return max(LOGITS_BYTES // (COPIES * 4 * int(plain_model(model).config.get_text_config().vocab_size)), 1)


def _row_fault(scorer: Scorer, samples: Sequence[Sample]) -> str | None:
    """Why padded rows are wrong for the model, or None where they agree with rows alone."""

    def difference(batch: MicroBatch) -> "Tensor":
        import torch

        alone = (scorer.score(MicroBatch("rows", [[s]])).logprobs[0] for s in batch.samples)
        rows = scorer.score(batch).logprobs
        return torch.cat([row[: len(own)] - own for row, own in zip(rows, alone, strict=True)])

    ends = [min(samples, key=lambda s: len(s.prompt)), max(samples, key=lambda s: len(s.prompt))] if samples else []
    return _refusal(scorer.model, [MicroBatch("rows", [[s] for s in ends])] if ends else [], difference)


def _fault(scorer: Scorer, samples: Sequence[Sample]) -> str | None:
    """Why the scorer's layout is wrong for the model, or None where it agrees with rows."""
    (layout,) = scorer.layouts
    window = getattr(scorer.model.config, "sliding_window", None)
    if layout in ("packed", "trees") and window and any(len(s.prompt) + len(s.completion) > window for s in samples):
        return f"the model attends to no more than {window} tokens"

    def difference(batch: MicroBatch) -> "Tensor":
        rows = MicroBatch("rows", [[s] for s in batch.samples])
        return scorer.score(batch).logprobs - scorer.score(rows).logprobs

    return _refusal(scorer.model, scorer.batches(samples[:TRIED])[:3], difference)


def _head_fault(scorer: Scorer, samples: Sequence[Sample]) -> str | None:
    """Why the model's head makes other logits than the model, or None."""

    def difference(batch: MicroBatch) -> "Tensor":
        laid, (run, head) = scorer._laid_out(batch), run_to_hidden(scorer.model)
        by_head = read(laid.pieces(run), laid.aim, scorer.temperature, head, len(batch.samples))
        return by_head.logprobs - scorer.score(batch).logprobs

    return _refusal(scorer.model, scorer.batches(samples[:TRIED])[:3], difference)


def _refusal(model: Any, batches: Sequence[MicroBatch], difference: "Callable[[MicroBatch], Tensor]") -> str | None:
    """What goes wrong where these micro-batches are computed in two ways, or None."""
    import torch

    bits = torch.finfo(next(model.parameters()).dtype).bits
    try:
        with torch.no_grad():
            found = [difference(batch).abs().max() for batch in batches]
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        return f"the model refuses it ({str(error).strip().splitlines()[0]})"
    worst = max(map(float, found), default=0.0)
    return None if worst <= (1e-3 if bits >= 32 else 0.05) else f"it differs by {worst:.2g}"
