"""The decoding loop on a CUDA card: a step, with the draw of its tokens, is one graph that is captured once.

A step of a small model is some thousand operations, each of which takes longer to start than to compute; a graph is
started as one. For it all shapes stay as they are: the cache has places for the tokens to come, and rows that have
ended are computed on until a quarter of them have. Which rows have is looked at every `STEPS` steps: the one
synchronisation with the card.
"""

from collections.abc import Callable
from typing import Any

import torch

from tasks.model.cuda.static_cache import StaticPlaces, StaticPrefix, static_cache
from tasks.model.decoding.batch_state import BatchState
from tasks.model.decoding.decode_loop import MAX_COPIED, Contexts, HfForward, decode
from tasks.model.decoding.growing_cache import keeps_all_tokens
from tasks.model.layers.fast_layers import fast_layers

STEPS = 16
ROOM = 512  # tokens that a row of the cache has places for at first, and more at a time
LIVE_SHARE = 0.75  # rows are dropped when at most this share is unfinished: moving them takes as long as some 15 steps


def decode_graph(model: Any, state: BatchState, max_copied: int = MAX_COPIED) -> None:
    """Complete a batch with a transformers model whose attention can be replaced and whose cache keeps all tokens.

    With truncation it is `decode`, whose `max_copied` it is. On a CPU the steps are not captured.
    """
    if state.is_truncated:
        decode(model, state, max_copied)
        return
    with fast_layers(model), torch.inference_mode():
        _GraphLoop(model, state).run()


class _GraphLoop:
    """B live rows of the R in the batch."""

    def __init__(self, model: Any, state: BatchState) -> None:
        self._forward, self._state = HfForward(model), state
        contexts = Contexts(model.config, self._forward, state)
        if not self._forward.supports_prefix or not keeps_all_tokens(contexts.cache):
            raise ValueError("its attention cannot be replaced, or its cache does not keep all tokens")
        self._live, self._real = torch.arange(len(state.requests), device=state.device), contexts.real
        self._tokens = state.append(contexts.logits, self._live, 0, contexts.owner)
        self._step = self._live.new_zeros(1)  # whose tokens were drawn last
        order = None if contexts.padding is None else contexts.padding.int().argsort(stable=True)
        self._cache, self._width = static_cache(contexts.cache, order), contexts.width
        self._move(contexts.owner, 1)

    def run(self) -> None:
        done, last = 1, self._state.steps
        while (count := self._count()) and done < last:
            steps = min(STEPS, last - done)
            if count <= LIVE_SHARE * len(self._live):
                self._drop_finished(done)
            elif self._width + done - 1 + steps > self._places.room:
                self._move(slice(None), done)
            for _ in range(steps):
                self._compute()
            self._state.end_rows(self._live, done, done + steps)
            done += steps

    def _count(self) -> int:
        """Unfinished rows; the rest is reported."""
        count = int(self._state.unfinished.sum())
        self._state.report(len(self._state.requests) - count)
        return count

    def _drop_finished(self, done: int) -> None:
        kept = self._state.unfinished[self._live].nonzero()[:, 0]
        self._live, self._real, self._tokens = self._live[kept], self._real[kept], self._tokens[kept]
        self._move(kept, done)

    def _move(self, rows: Any, done: int) -> None:
        """Keep these rows of the cache, with room after the `done` tokens; the next step is captured."""
        self._replay: Callable[[], None] | None = None  # whose memory is free
        room = self._width + min(done - 1 + ROOM, self._state.steps - 1)
        self._places = StaticPlaces(self._real + (done - 1), room)
        for layer in self._cache.layers:
            layer.place_rows(rows, self._places)
        self._prefix = StaticPrefix(self._places, self._cache.layers[0].keys)

    def _compute(self) -> None:
        if self._replay is None:
            self._advance()  # the libraries' first calls, which allocate and tune, cannot be captured
            self._replay = self._capture()
        else:
            self._replay()

    def _capture(self) -> Callable[[], None]:
        if self._live.device.type != "cuda":  # in tests of the loop
            return self._advance
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._advance()
        return graph.replay

    def _advance(self) -> None:
        """The last token of each row is computed, and the next one drawn."""
        positions = self._places.used.long()
        self._step += 1
        self._prefix.take_next()
        logits = self._forward.decode(self._tokens, positions, self._cache, self._prefix)
        self._tokens.copy_(self._state.draw(logits, self._live, self._step))
