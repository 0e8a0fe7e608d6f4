"""Completions while they are written, whoever computes the logits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.errors import GraftError
from tasks.model.sampling.inverse_cdf import draw, uniforms
from tasks.model.scoring.padded_rows import scale_logits, token_logprobs
from tasks.records import Completion

if TYPE_CHECKING:
    from torch import Tensor

NOTHING = Completion(tokens=[], logprobs=[])


@dataclass(frozen=True)
class Request:
    """One completion to sample. `prefix` was written earlier by the same policy and is continued.

    `longest` is the most tokens of this one completion, prefix included, where that is less than the sampler's own.
    """

    prompt: list[int]
    seed: int
    prefix: Completion = NOTHING
    longest: int | None = None

    @property
    def context(self) -> tuple[int, ...]:
        return (*self.prompt, *self.prefix.tokens)

    def budget(self, max_new_tokens: int) -> int:
        """Tokens that may still be written."""
        return min(max_new_tokens, self.longest or max_new_tokens) - len(self.prefix.tokens)


class Rows:
    """R rows, one for each request: what each has drawn so far, and whether it is still open."""

    def __init__(
        self, requests: Sequence[Request], temperature: float, max_new_tokens: int, eos: int | None, device: Any
    ) -> None:
        """Each request has a budget of 1 or more; a row ends with `eos` or when it has spent its budget."""
        import torch

        self.requests, self.temperature, self.eos, self.device = requests, temperature, eos, device
        budgets = [request.budget(max_new_tokens) for request in requests]
        self.steps = max(budgets)
        self.lengths = torch.tensor(budgets, device=device)  # [R] what a row has at most, or had when it ended
        self.open = torch.ones(len(requests), dtype=torch.bool, device=device)  # [R]
        self._tokens = torch.zeros((self.steps, len(requests)), dtype=torch.long, device=device)
        self._logprobs = torch.zeros((self.steps, len(requests)), device=device)
        if temperature:
            seeds = [request.seed for request in requests]
            self._points = uniforms(seeds, self.steps, device).T.contiguous()  # [steps, R]

    def write(self, logits: "Tensor", live: "Tensor", step: int) -> "Tensor":
        """The next token [B] of the rows `live` [B], from logits [B, V]; a row that is not open keeps what it has."""
        if self.temperature:
            chosen, logprobs = draw(scale_logits(logits, self.temperature), self._points[step].index_select(0, live))
        else:
            chosen = logits.argmax(-1)
            logprobs = token_logprobs(logits, chosen, 1.0)
        self._tokens[step].index_copy_(0, live, chosen)  # past a row's length: never looked at
        self._logprobs[step].index_copy_(0, live, logprobs.to(self._logprobs.dtype))
        if self.eos is not None:
            lengths = self.lengths.index_select(0, live)
            self.lengths.index_copy_(0, live, lengths.where(chosen != self.eos, lengths.clamp(max=step + 1)))
        self.open = self.lengths > step + 1
        return chosen

    def completions(self) -> list[Completion]:
        """Raises GraftError where a row was drawn from logits that are no numbers."""
        import torch

        if not torch.isfinite(self._logprobs).all():
            raise GraftError("policy: its logits are not finite; an update has diverged: lower grpo.learning_rate")
        tokens, logprobs, lengths = self._tokens.T.tolist(), self._logprobs.T.tolist(), self.lengths.tolist()
        return [
            Completion(
                tokens=[*r.prefix.tokens, *tokens[i][: lengths[i]]],
                logprobs=[*r.prefix.logprobs, *(round(x, 6) for x in logprobs[i][: lengths[i]])],
            )
            for i, r in enumerate(self.requests)
        ]
