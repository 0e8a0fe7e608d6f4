"""Sampling completions: who is written with whom. How a batch is written stands in `decoding.py`.

A row's random numbers depend on its own seed alone, so that its tokens do not depend on the batch it is in.
"""

import sys
from collections.abc import Iterator, Sequence

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sampling.backends import Way, way_of
from tasks.model.sampling.batch_state import Request, Rows
from tasks.model.scoring.hf_model import unwrap_model
from tasks.records import Completion

__all__ = ["Request", "Sampler", "room_of", "sample"]

ROWS = 384  # rows decoded together: past this a bigger batch is no faster on a CPU


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
        self._policy, self._temperature, self._longest = policy, temperature, max_new_tokens
        self._way: Way | None = None

    def batches(self, requests: Sequence[Request]) -> list[list[int]]:
        """Places of the requests that are decoded together: a function of the requests, each in one batch.

        Raises GraftError where a prompt leaves no room for a completion.
        """
        _check_room(self._policy, requests, self._longest)
        return list(_batches(requests))

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """A completion for each request of one batch, in order; a prefix that is as long as may be is one already.

        Raises GraftError where the policy's logits are not finite.
        """
        going = [r for r in requests if r.budget(self._longest) > 0]
        written: Iterator[Completion] = iter(())
        if going:
            self._way = self._way or way_of(self._policy, going[0].prompt)
            eos = self._policy.tokenizer.eos_token_id
            rows = Rows(going, self._temperature, self._longest, eos, self._policy.device)
            self._way(unwrap_model(self._policy.model), rows)
            written = iter(rows.completions())
        return [next(written) if r.budget(self._longest) > 0 else r.prefix for r in requests]


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


def _batches(requests: Sequence[Request]) -> Iterator[list[int]]:
    """Indices of at most ROWS requests each; equal contexts stay together, contexts of like length too."""
    order = sorted(range(len(requests)), key=lambda i: (len(requests[i].context), requests[i].context, i))
    for start in range(0, len(order), ROWS):
        yield order[start : start + ROWS]
