"""How a policy is sampled: the fastest way that keeps the law, tried out on a few short rows of the policy itself.

The law: the log-probabilities that the sampler records are those of teacher forcing, one plain forward pass of the
policy without cache, padding or merged adapter. It finds a model whose cache, positions or masks are silently wrong.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from tasks.policy.base import Policy
from tasks.policy.decoding import decode
from tasks.policy.generation import generate
from tasks.policy.lean import lean
from tasks.policy.rows import Request, Rows
from tasks.policy.running import plain_model

logger = logging.getLogger(__name__)

Way = Callable[[Any, Rows], None]
"""Writes rows with a transformers model."""

_verdicts: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
"""Of a policy's model: way → why not, "" = it does."""


def way_of(policy: Policy, prompt: list[int]) -> Way:
    """What writes rows with the policy's `plain_model`: our loop, on lean layers if it can be, or `generate`.

    `prompt` lends its tokens to the trial, which a model has once. A way that is passed over is logged with the reason.
    """
    verdicts = _verdicts.setdefault(policy.model, {})
    ways = _ways()
    for name, way in ways.items():
        if name not in verdicts:
            verdicts[name] = _why_not(policy, way, prompt)
            if verdicts[name]:
                logger.warning("policy: %s does not sample it: %s", name, verdicts[name])
        if not verdicts[name]:
            return way
    return way  # the last one whatever its verdict: nothing comes after it


def _ways() -> dict[str, Way]:
    return {
        "our loop on lean layers": _decode_lean,
        "our loop": decode,
        "our loop without shared contexts": partial(decode, share=False),
        "transformers' generate": generate,
        "transformers' generate without a cache": partial(generate, use_cache=False),
    }


def _decode_lean(model: Any, rows: Rows) -> None:
    with lean(model):
        decode(model, rows)


def _why_not(policy: Policy, way: Way, prompt: list[int]) -> str:
    """What speaks against this way, "" if nothing does.

    Tried on contexts of unlike length, rows that share one, rows that end apart.
    """
    import torch

    tokens = (prompt * 8)[:8]
    lengths = {1: 6, 2: 2, 3: 2}
    asked = [Request(tokens, seed, longest=longest) for seed, longest in lengths.items()]
    asked += [Request(tokens[:3], 4, longest=4)]
    model = plain_model(policy.model)
    rows = Rows(asked, temperature=1.0, max_new_tokens=6, eos=None, device=policy.device)
    try:
        way(model, rows)
    except Exception as error:  # noqa: BLE001  a model that lacks what this way needs may raise anything
        return f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
    differences = []
    for request, completion in zip(asked, rows.completions(), strict=True):
        ids = torch.tensor([[*request.prompt, *completion.tokens]], device=policy.device)
        with torch.inference_mode():
            logits = model(input_ids=ids).logits[0, len(request.prompt) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(-1, ids[0, len(request.prompt) :, None])[:, 0].tolist()
        differences += [abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True)]
    mean = sum(differences) / len(differences)
    allowed = max(torch.finfo(p.dtype).eps for p in model.parameters() if p.is_floating_point()) ** 0.5
    return "" if mean <= allowed else f"its log-probabilities are {mean:.2g} from those of a plain forward pass"
