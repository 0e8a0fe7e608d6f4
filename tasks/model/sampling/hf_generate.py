"""Reference sampler: transformers' own `generate`, without a cache. Every model samples correctly with it.

A logits processor draws each token as the decoding loop does and masks all others, so that a row has the same tokens
with both. Rows of one length are sampled together: no padding is needed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.model.sampling.batch_state import BatchState

if TYPE_CHECKING:
    from torch import Tensor


def generate(model: Any, state: BatchState) -> None:
    """Complete a batch with a transformers model, through its `generate`."""
    import torch

    lengths = [len(request.context) for request in state.requests]
    with torch.inference_mode(), _default_generation_config(model):
        for length in sorted(set(lengths)):
            _generate(model, state, [i for i, other in enumerate(lengths) if other == length])


def _generate(model: Any, state: BatchState, places: Sequence[int]) -> None:
    import torch
    from transformers import GenerationConfig

    live = torch.tensor(places, device=state.device)
    ids = torch.tensor([state.requests[i].context for i in places], device=state.device)
    steps = int(state.lengths[live].max())
    end = state.ends[0] if state.ends else 0

    def only_drawn(seen: "Tensor", logits: "Tensor") -> "Tensor":
        step = seen.shape[1] - ids.shape[1]
        if step >= steps:  # on some devices `generate` stops one step late
            return logits
        drawn = state.append(logits, live, step).where(state.unfinished[live], end)
        return torch.full_like(logits, -torch.inf).scatter(1, drawn[:, None], 0.0)

    config = GenerationConfig(
        max_new_tokens=steps, do_sample=False, eos_token_id=list(state.ends) or None, pad_token_id=end, use_cache=False
    )
    model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config, logits_processor=[only_drawn]
    )


@contextmanager
def _default_generation_config(model: Any) -> Iterator[None]:
    """Without the checkpoint's own settings (a repetition penalty …), which would change the distribution."""
    from transformers import GenerationConfig

    own, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own
