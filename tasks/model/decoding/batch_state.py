"""State of a batch of completions while they are sampled: tokens, log-probabilities and which rows are unfinished."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tasks.errors import GraftError
from tasks.model.decoding.token_draw import Truncation, draw, rows_at, scale_logits, token_logprobs, uniforms
from tasks.records.search import Completion

Stop = Callable[[Tensor], Tensor]
"""Token ids [B, T] → whether the text of each row ends in a stop string, bool [B]."""

EMPTY = Completion(tokens=[], logprobs=[])

ALL_TOKENS = Truncation()

STOP_TOKENS = 128
"""Last tokens that a stop string is looked for in: the bytes of the longest one, 32 characters."""


@dataclass(frozen=True)
class Request:
    """One completion to sample; it continues `prefix`, which the same policy sampled earlier.

    `max_tokens` limits this completion, prefix included, where it is less than the sampler's own limit. `temperature`
    takes the place of the sampler's, unless that is greedy; 0: this completion is.
    """

    prompt: list[int]
    seed: int
    prefix: Completion = EMPTY
    max_tokens: int | None = None
    temperature: float | None = None

    @property
    def context(self) -> tuple[int, ...]:
        return (*self.prompt, *self.prefix.tokens)

    def temperature_or(self, default: float) -> float:
        """Its temperature with a sampler of temperature `default`."""
        return default if self.temperature is None or default == 0 else self.temperature

    def budget(self, max_new_tokens: int) -> int:
        """Tokens that may still be sampled."""
        return min(max_new_tokens, self.max_tokens or max_new_tokens) - len(self.prefix.tokens)


class BatchState:
    """R rows, one per request."""

    def __init__(
        self,
        requests: Sequence[Request],
        temperature: float,
        max_new_tokens: int,
        ends: Sequence[int],
        device: Any,
        stop: Stop | None = None,
        truncation: Truncation = ALL_TOKENS,
    ) -> None:
        """Each request has a budget of 1 or more; a row ends with a token of `ends`, by `stop`, or with its budget."""
        self.requests, self.temperature, self.ends, self.device = requests, temperature, tuple(ends), device
        self._truncation = truncation
        self._kept: list[list[list[int]]] = [[] for _ in requests]  # [R][step][…]; empty without truncation
        self._ends, self._stop = torch.tensor(self.ends, dtype=torch.long, device=device), stop
        budgets = [request.budget(max_new_tokens) for request in requests]
        self.report: Callable[[int], None] = lambda _: None  # called with the number of rows that have ended
        self.steps = max(budgets)
        self.lengths = torch.tensor(budgets, device=device)  # [R] final if the row has ended, else the budget
        self.unfinished = torch.ones(len(requests), dtype=torch.bool, device=device)  # [R]
        # Steps come first: what a step writes lies together.
        self._tokens = torch.zeros((self.steps, len(requests)), dtype=torch.long, device=device)
        self._logprobs = torch.zeros((self.steps, len(requests)), device=device)
        own = [request.temperature_or(temperature) for request in requests]
        self._temperatures: Tensor | None = None  # [R, 1] where some request has another
        if any(t not in (0, temperature) for t in own):
            self._temperatures = torch.tensor([t or temperature for t in own], device=device)[:, None]
        self._greedy: Tensor | None = None  # [R] where some request is greedy, and the sampler is not
        if temperature and 0 in own:
            self._greedy = torch.tensor(own, device=device) == 0
        if temperature:
            seeds = [request.seed for request in requests]
            self._points = uniforms(seeds, self.steps, device).T.contiguous()  # [steps, R]

    @property
    def is_truncated(self) -> bool:
        """Whether the kept set of each token is recorded, which takes a look at the device in each step."""
        return not self._truncation.is_off

    def append(self, logits: Tensor, live: Tensor, step: int, places: Tensor | None = None) -> Tensor:
        """Draw the next token [B] of the rows `live` [B]; a row that has ended does not change. Others: see `draw`."""
        tokens = self.draw(logits, live, step, places)
        self.end_rows(live, step, step + 1)
        return tokens

    def draw(self, logits: Tensor, live: Tensor, step: int | Tensor, places: Tensor | None = None) -> Tensor:
        """Draw and keep the tokens [B] of `step`, a number or [1], from logits [D, V], at `places` [B] or one a row.
        Without truncation there is no synchronisation with the device."""
        if not self.temperature:
            tokens, logprobs = _most_probable(logits, places)
        else:
            by_row = self._temperatures
            if by_row is not None or self.is_truncated:  # rows with the same logits may differ
                logits, places = rows_at(logits, places), None
            scaled = scale_logits(logits, self.temperature if by_row is None else by_row.index_select(0, live))
            tokens, logprobs = draw(self._truncated(scaled, live), self._points[step, live], places)
            if self._greedy is not None:
                greedy, best = self._greedy.index_select(0, live), _most_probable(logits, places)
                tokens, logprobs = (x.where(greedy, y) for x, y in zip(best, (tokens, logprobs), strict=True))
        self._tokens[step, live] = tokens  # past a row's length: never read
        self._logprobs[step, live] = logprobs.to(self._logprobs.dtype)
        return tokens

    def end_rows(self, live: Tensor, first: int, last: int) -> None:
        """End the rows `live` [B] whose tokens of the steps first to last - 1 end a completion."""
        for step in range(first, last) if self.ends or self._stop else ():
            ended = torch.isin(self._tokens[step, live], self._ends)
            if self._stop:
                ended |= self._stop(self._tokens[max(step + 1 - STOP_TOKENS, 0) : step + 1, live].T)
            lengths = self.lengths.index_select(0, live)  # a boolean index would make the CPU wait for the device
            self.lengths.index_copy_(0, live, lengths.where(~ended, lengths.clamp(max=step + 1)))
        self.unfinished = self.lengths > last

    def _truncated(self, scaled: Tensor, live: Tensor) -> Tensor:
        """Scaled logits [B, V] of the rows `live`, -inf outside of the kept sets, which are recorded."""
        if self._truncation.is_off:
            return scaled
        kept = self._truncation.kept(scaled)
        sets = torch.split(kept.nonzero()[:, 1].cpu(), kept.sum(-1).tolist())
        for row, tokens in zip(live.tolist(), sets, strict=True):
            self._kept[row].append(tokens.tolist())
        return scaled.masked_fill(~kept, -torch.inf)

    def completions(self) -> list[Completion]:
        """The completions, in the order of the requests. Raises GraftError if logits were not finite."""
        if not torch.isfinite(self._logprobs).all():
            raise GraftError("policy: its logits are not finite; an update has diverged: lower update.learning_rate")
        tokens, logprobs, lengths = self._tokens.T.tolist(), self._logprobs.T.tolist(), self.lengths.tolist()
        return [
            Completion(
                tokens=[*r.prefix.tokens, *tokens[i][: lengths[i]]],
                logprobs=[*r.prefix.logprobs, *(round(x, 6) for x in logprobs[i][: lengths[i]])],
                kept=[*r.prefix.kept, *self._kept[i][: lengths[i]]],
            )
            for i, r in enumerate(self.requests)
        ]


def _most_probable(logits: Tensor, places: Tensor | None) -> tuple[Tensor, Tensor]:
    """Greedy tokens [B] and their log-probabilities at temperature 1 [B]; logits [D, V], places [B] or one a row."""
    tokens = logits.argmax(-1)
    return rows_at(tokens, places), rows_at(token_logprobs(logits, tokens, 1.0), places)
