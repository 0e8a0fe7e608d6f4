"""Writing rows with transformers' own `generate`, for models that our loop does not suit.

A logits processor draws each token as our loop does and leaves `generate` no other choice, so that a row has the same
tokens either way. Rows of one length go together: no model needs to understand padding.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tasks.model.sampling.batch_state import Rows

if TYPE_CHECKING:
    from torch import Tensor


def generate(model: Any, rows: Rows, use_cache: bool = True) -> None:
    """Write `rows` to their ends with a transformers model, through its `generate`."""
    import torch

    lengths = [len(request.context) for request in rows.requests]
    with torch.inference_mode(), _plain_generation(model):
        for length in sorted(set(lengths)):
            _generate(model, rows, [i for i, other in enumerate(lengths) if other == length], use_cache)


def _generate(model: Any, rows: Rows, places: Sequence[int], use_cache: bool) -> None:
    import torch
    from transformers import GenerationConfig

    live = torch.tensor(places, device=rows.device)
    ids = torch.tensor([rows.requests[i].context for i in places], device=rows.device)
    steps = int(rows.lengths[live].max())
    end = 0 if rows.eos is None else rows.eos

    def only_chosen(seen: "Tensor", logits: "Tensor") -> "Tensor":
        step = seen.shape[1] - ids.shape[1]
        if step >= steps:  # on some devices `generate` looks a step later whether all rows have ended
            return logits
        chosen = rows.write(logits, live, step).where(rows.open[live], end)
        return torch.full_like(logits, -torch.inf).scatter(1, chosen[:, None], 0.0)

    config = GenerationConfig(
        max_new_tokens=steps, do_sample=False, eos_token_id=rows.eos, pad_token_id=end, use_cache=use_cache
    )
    model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config, logits_processor=[only_chosen]
    )


@contextmanager
def _plain_generation(model: Any) -> Iterator[None]:
    """Without the checkpoint's own settings (a repetition penalty …), which would fill what we leave open."""
    from transformers import GenerationConfig

    kept, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = kept
