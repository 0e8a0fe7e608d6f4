"""Sampling completions: each prompt prefilled once, finished rows dropped, one seeded uniform a token.

A row's random numbers depend on its own seed alone, so that its tokens do not depend on the batch it is in.
"""

import copy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.errors import GraftError
from tasks.policy.base import Policy
from tasks.policy.scoring import token_logprobs
from tasks.records import Completion

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 384  # rows decoded together: past this a bigger batch is no faster on a CPU
MERGED_PARAMETERS = 500_000_000  # up to this size the adapter is merged into a copy: 1.3 × faster sampling

NOTHING = Completion(tokens=[], logprobs=[])


@dataclass(frozen=True)
class Request:
    """One completion to sample. `prefix` was written earlier by the same policy and is continued."""

    prompt: list[int]
    seed: int
    prefix: Completion = NOTHING

    @property
    def context(self) -> tuple[int, ...]:
        return (*self.prompt, *self.prefix.tokens)


def sample(
    policy: Policy, requests: Sequence[Request], temperature: float, max_new_tokens: int, title: str
) -> list[Completion]:
    """A completion for each request, in order; `temperature` 0 takes the likeliest token.

    `logprobs` are the log-probabilities at the sampling temperature (at 1 where it is 0). At most
    `max_new_tokens` tokens with the prefix; a completion that was not cut ends with the end-of-text token.
    Raises GraftError where a prompt leaves no room for that many.
    """
    from rich.console import Console
    from rich.progress import Progress

    sampler = Sampler(policy, temperature, max_new_tokens)
    done: dict[int, Completion] = {}
    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
        bar = progress.add_task(title, total=len(requests))
        for rows in sampler.batches(requests):
            done.update(zip(rows, sampler.complete([requests[i] for i in rows]), strict=True))
            progress.advance(bar, len(rows))
    return [done[i] for i in range(len(requests))]


class Sampler:
    """`sample` by the batch, for who keeps what each batch gave before the next one begins."""

    def __init__(self, policy: Policy, temperature: float, max_new_tokens: int) -> None:
        """The adapter is merged here, once for all batches."""
        import torch

        self._policy, self._temperature, self._longest = policy, temperature, max_new_tokens
        with torch.inference_mode():
            self._model = _for_sampling(policy)

    def batches(self, requests: Sequence[Request]) -> list[list[int]]:
        """Places of the requests that are decoded together: a function of the requests, each in one batch.

        Raises GraftError where a prompt leaves no room for a completion.
        """
        _check_room(self._policy, requests, self._longest)
        return list(_batches(requests))

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """A completion for each request of one batch, in order; a prefix that is as long as may be is one already."""
        import torch

        going = [r for r in requests if len(r.prefix.tokens) < self._longest]
        written: Iterator[Completion] = iter(())
        if going:
            with torch.inference_mode():
                written = iter(_Decoding(self._policy, self._model, going, self._temperature, self._longest).run())
        return [next(written) if len(r.prefix.tokens) < self._longest else r.prefix for r in requests]


def _check_room(policy: Policy, requests: Sequence[Request], max_new_tokens: int) -> None:
    room = room_of(policy, max_new_tokens)
    longest = max((len(r.prompt) for r in requests), default=0)
    if longest > room:
        raise GraftError(
            f"policy.base: holds {room + max_new_tokens} tokens, but the longest prompt has {longest} and "
            f"policy.max_new_tokens is {max_new_tokens}; lower it, or leave out problems with long questions"
        )


def room_of(policy: Policy, max_new_tokens: int) -> int:
    """Tokens of the longest prompt that `max_new_tokens` can follow."""
    positions = getattr(policy.model.config, "max_position_embeddings", None)
    return (positions or sys.maxsize) - max_new_tokens


def _for_sampling(policy: Policy) -> Any:
    parameters = sum(p.numel() for p in policy.model.parameters())
    if not policy.has_adapter or parameters > MERGED_PARAMETERS:
        return policy.model
    return copy.deepcopy(policy.model).merge_and_unload().eval()


def _batches(requests: Sequence[Request]) -> Iterator[list[int]]:
    """Indices of at most ROWS requests each; equal contexts stay together, contexts of like length too."""
    order = sorted(range(len(requests)), key=lambda i: (len(requests[i].context), requests[i].context, i))
    for start in range(0, len(order), ROWS):
        yield order[start : start + ROWS]


class _Decoding:
    """The state of one batch while it is decoded: B live rows of the R that it began with."""

    def __init__(
        self, policy: Policy, model: Any, requests: Sequence[Request], temperature: float, max_new_tokens: int
    ) -> None:
        import numpy as np
        import torch

        self.model, self.temperature, self.device = model, temperature, policy.device
        self.eos, self.pad = policy.tokenizer.eos_token_id, policy.tokenizer.pad_token_id
        self.requests = requests
        self.budgets = [max_new_tokens - len(r.prefix.tokens) for r in requests]
        steps = max(self.budgets)
        if temperature:
            draws = [np.random.Generator(np.random.Philox(r.seed)).random(steps) for r in requests]
            self.uniforms = torch.tensor(np.stack(draws), device=self.device)  # [R, steps]
        self.tokens = torch.full((len(requests), steps), self.pad, device=self.device)
        self.logprobs = torch.zeros((len(requests), steps), device=self.device)
        self.lengths = torch.zeros(len(requests), dtype=torch.long, device=self.device)

    def run(self) -> list[Completion]:
        import torch

        logits, cache, attention = self._prefill()
        live = torch.arange(len(self.requests), device=self.device)
        budgets = torch.tensor(self.budgets, device=self.device)
        step = 0
        while True:
            chosen, logprobs = self._choose(logits, live, step)
            self.tokens[live, step], self.logprobs[live, step] = chosen, logprobs
            self.lengths[live] = step + 1
            going = (chosen != self.eos) & (budgets[live] > step + 1)
            if not going.any():
                return self._completions()
            if not going.all():
                kept = going.nonzero()[:, 0]
                live, chosen, attention = live[kept], chosen[kept], attention[kept]
                cache.batch_select_indices(kept)
            attention = torch.cat([attention, attention.new_ones(len(live), 1)], dim=1)
            positions = attention.sum(-1, keepdim=True) - 1
            logits = self.model(
                input_ids=chosen[:, None],
                attention_mask=attention,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            ).logits[:, -1]
            step += 1

    def _prefill(self) -> tuple["Tensor", Any, "Tensor"]:
        """Each distinct context once, then a row for each request: logits [R, V], cache, attention [R, S]."""
        import torch

        contexts = list(dict.fromkeys(r.context for r in self.requests))
        place = {context: i for i, context in enumerate(contexts)}
        rows = torch.tensor([place[r.context] for r in self.requests], device=self.device)
        width = max(len(c) for c in contexts)
        ids = torch.tensor([[self.pad] * (width - len(c)) + list(c) for c in contexts], device=self.device)
        attention = torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts], device=self.device)
        out = self.model(
            input_ids=ids,
            attention_mask=attention,
            position_ids=(attention.cumsum(-1) - 1).clamp_(min=0),
            use_cache=True,
            logits_to_keep=1,
        )
        out.past_key_values.batch_select_indices(rows)
        return out.logits[rows, -1], out.past_key_values, attention[rows]

    def _choose(self, logits: "Tensor", live: "Tensor", step: int) -> tuple["Tensor", "Tensor"]:
        """Tokens [B] and their log-probabilities [B], by the inverse of the cumulative distribution."""
        import torch

        if not self.temperature:
            chosen = logits.argmax(-1)
            return chosen, token_logprobs(logits, chosen, 1.0)
        cumulative = (logits.float() / self.temperature).softmax(-1).double().cumsum(-1)
        points = self.uniforms[live, step, None] * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, points, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)
        return chosen, token_logprobs(logits, chosen, self.temperature)

    def _completions(self) -> list[Completion]:
        tokens, logprobs, lengths = self.tokens.tolist(), self.logprobs.tolist(), self.lengths.tolist()
        return [
            Completion(
                tokens=[*r.prefix.tokens, *tokens[i][: lengths[i]]],
                logprobs=[*r.prefix.logprobs, *(round(x, 6) for x in logprobs[i][: lengths[i]])],
            )
            for i, r in enumerate(self.requests)
        ]
