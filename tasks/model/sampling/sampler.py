"""Samples completions from a policy, batch by batch.

A row's random numbers are a function of its own seed, so that, but for rounding, its tokens do not depend on its batch.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Sequence

import torch

from tasks.core.progress import show_progress
from tasks.errors import GraftError
from tasks.model.cpu.limits import Limits
from tasks.model.cuda.limits import CardLimits
from tasks.model.decoding.batch_state import ALL_TOKENS, BatchState, Request, Stop
from tasks.model.decoding.token_draw import Truncation
from tasks.model.device import for_device
from tasks.model.hf_model import unwrap_model
from tasks.model.policy import Policy
from tasks.model.sampling.backends import Backend, pick_backend
from tasks.model.sampling.vllm.completions import sample_on_server
from tasks.records.search import Completion

__all__ = ["Request", "Sampler", "max_prompt_tokens", "sample"]

logger = logging.getLogger(__name__)


def sample(
    policy: Policy,
    requests: Sequence[Request],
    temperature: float,
    max_new_tokens: int,
    title: str,
    truncation: Truncation = ALL_TOKENS,
) -> list[Completion]:
    """A completion for each request, in order; `temperature` 0 is greedy.

    `logprobs` are at the sampling temperature (at 1 where it is 0), over the tokens that `truncation` keeps. A
    completion has at most `max_new_tokens` tokens, prefix included, and ends with the end-of-text token if it was not
    cut. Raises GraftError where a prompt leaves no room for that many.
    """
    sampler = Sampler(policy, temperature, max_new_tokens, truncation)
    done: dict[int, Completion] = {}
    finished = 0
    with show_progress(title, len(requests), "completions") as advance:

        def report(rows: int) -> None:
            nonlocal finished
            advance(len(done) + rows - finished)
            finished = len(done) + rows

        for rows in sampler.batches(requests):
            done.update(zip(rows, sampler.complete([requests[i] for i in rows], report), strict=True))
    return [done[i] for i in range(len(requests))]


class Sampler:
    """`sample` batch by batch, for callers that save each batch before the next one begins."""

    def __init__(
        self, policy: Policy, temperature: float, max_new_tokens: int, truncation: Truncation = ALL_TOKENS
    ) -> None:
        self._policy, self._temperature, self._max_tokens = policy, temperature, max_new_tokens
        self._truncation = truncation
        self._backend: Backend | None = None
        self._most = sys.maxsize  # rows that fit in memory
        self._stop = stop_criterion(policy, policy.stop) if policy.stop and policy.served is None else None

    def batches(self, requests: Sequence[Request]) -> list[list[int]]:
        """Indices of the requests that are decoded together; a function of the requests.

        Raises GraftError where a prompt leaves no room for a completion.
        """
        _check_room(self._policy, requests, self._max_tokens)
        return list(_batches(requests, self._rows(requests)))

    def _rows(self, requests: Sequence[Request]) -> int:
        limits = Limits()
        if not self._policy.served:
            limits = for_device(self._policy.device, cpu=Limits.of, cuda=CardLimits.of)(self._policy.device)
        longest = max((len(r.context) for r in requests), default=0)
        return limits.rows(self._policy.model, longest, self._max_tokens)

    def complete(self, requests: Sequence[Request], report: Callable[[int], None] | None = None) -> list[Completion]:
        """A completion for each request of one batch, in order; a prefix of the maximal length is one already.

        `report` is called with the number of finished completions as it grows.
        Raises GraftError where the policy's logits are not finite, or a server does not give what it is asked for.
        """
        unfinished = [r for r in requests if r.budget(self._max_tokens) > 0]
        report, before = report or (lambda _: None), len(requests) - len(unfinished)
        completions: Iterator[Completion] = iter(())
        if unfinished:
            sample_rows = self._ask_server if self._policy.served else self._decode
            completions = iter(sample_rows(unfinished, lambda finished: report(before + finished)))
        report(len(requests))
        return [next(completions) if r.budget(self._max_tokens) > 0 else r.prefix for r in requests]

    def _decode(self, requests: Sequence[Request], report: Callable[[int], None]) -> list[Completion]:
        """Completions of one batch, or of parts of it, halved until they fit in a card's memory."""
        completions: list[Completion] = []
        while rest := requests[len(completions) :]:
            rows = min(len(rest), self._most)
            try:
                completions.extend(self._decode_rows(rest[:rows], lambda done: report(len(completions) + done)))
            except torch.OutOfMemoryError:
                if rows == 1:
                    raise
                self._most = rows // 2  # for later batches, too: they are as large
                logger.warning("%d completions at once do not fit in the card's memory: %d are tried", rows, self._most)
                torch.cuda.empty_cache()
        return completions

    def _decode_rows(self, requests: Sequence[Request], report: Callable[[int], None]) -> list[Completion]:
        self._backend = self._backend or pick_backend(self._policy, requests[0].prompt)
        ends, device = self._policy.end_tokens, self._policy.device
        state = BatchState(requests, self._temperature, self._max_tokens, ends, device, self._stop, self._truncation)
        state.report = report
        self._backend(unwrap_model(self._policy.model), state)
        return state.completions()

    def _ask_server(self, requests: Sequence[Request], report: Callable[[int], None]) -> list[Completion]:
        return sample_on_server(self._policy, requests, self._temperature, self._max_tokens, report)


def stop_criterion(policy: Policy, stop: list[str]) -> Stop:
    """A function of token ids [B, T]: whether the text of each row ends in a stop string."""
    from transformers.generation.stopping_criteria import StopStringCriteria

    criterion = StopStringCriteria(policy.tokenizer, stop)
    return lambda ids: criterion(ids, None)


def _check_room(policy: Policy, requests: Sequence[Request], max_new_tokens: int) -> None:
    room, served = max_prompt_tokens(policy, max_new_tokens), policy.served
    longest = max((len(r.prompt) for r in requests), default=0)
    if longest > room:
        is_of_server = served is not None and _context(policy) == served.max_model_len
        holder = f"sampler: {served.address}" if served and is_of_server else "policy.base"
        raise GraftError(
            f"{holder}: holds {room + max_new_tokens} tokens, but the longest prompt has {longest} and "
            f"policy.max_new_tokens is {max_new_tokens}; lower it, or leave out problems with long questions"
        )


def max_prompt_tokens(policy: Policy, max_new_tokens: int) -> int:
    """Tokens of the longest prompt that leaves room for `max_new_tokens`."""
    return _context(policy) - max_new_tokens


def _context(policy: Policy) -> int:
    positions = getattr(policy.model.config, "max_position_embeddings", None) or sys.maxsize
    return min(positions, policy.served.max_model_len) if policy.served else positions


def _batches(requests: Sequence[Request], rows: int) -> Iterator[list[int]]:
    """Indices of at most `rows` requests each; equal and similarly long contexts together."""
    order = sorted(range(len(requests)), key=lambda i: (len(requests[i].context), requests[i].context, i))
    for start in range(0, len(order), rows):
        yield order[start : start + rows]
