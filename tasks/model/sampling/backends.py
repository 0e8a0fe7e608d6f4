"""How a policy is sampled: the fastest way that keeps the law, tried out on a few short rows of the policy itself.

The law: the log-probabilities that the sampler records are those of teacher forcing, one plain forward pass of the
policy without cache, padding or merged adapter. It finds a model whose cache, positions or masks are silently wrong.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from tasks.model.fast_layers.fast_layers import lean
from tasks.model.policy import Policy
from tasks.model.sampling.batch_state import Request, Rows
from tasks.model.sampling.decode_loop import FEW, decode, decode_blocks
from tasks.model.sampling.hf_generate import generate
from tasks.model.sampling.llama_blocks import is_known
from tasks.model.scoring.hf_model import unwrap_model

TRIED = 20
"""Tokens of rows' contexts up to which a trial lets them hold their own: it begins with shared ones, ends without."""

logger = logging.getLogger(__name__)

Way = Callable[[Any, Rows], None]
"""Writes rows with a transformers model."""

_verdicts: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
"""Of a policy's model: way → why not, "" = it does."""


def way_of(policy: Policy, prompt: list[int]) -> Way:
    """What writes rows with the policy's `unwrap_model`: our loop, on lean layers if it can be, or `generate`.

    `prompt` lends its tokens to the trial, which a model has once. A way that is passed over is logged with the reason.
    """
    verdicts = _verdicts.setdefault(policy.model, {})
    known = is_known(unwrap_model(policy.model))
    tried = _ways(known, TRIED)
    for name, way in _ways(known, FEW).items():
        if name not in verdicts:
            verdicts[name] = _why_not(policy, tried[name], prompt)
            if verdicts[name]:
                logger.warning("policy: %s does not sample it: %s", name, verdicts[name])
        if not verdicts[name]:
            return way
    return way  # the last one whatever its verdict: nothing comes after it


def _ways(known: bool, few: int) -> dict[str, Way]:
    """In the order of their speed; `known`: to `Blocks`."""
    blocks = {"our loop on blocks written out": partial(decode_blocks, few=few)}
    return (blocks if known else {}) | {
        "our loop on lean layers": partial(_decode_lean, few=few),
        "our loop": partial(decode, few=few),
        "our loop with the model's own attention": partial(decode, told=False),
        "transformers' generate": generate,
        "transformers' generate without a cache": partial(generate, use_cache=False),
    }


def _decode_lean(model: Any, rows: Rows, few: int) -> None:
    with lean(model):
        decode(model, rows, few=few)


def _why_not(policy: Policy, way: Way, prompt: list[int]) -> str:
    """What speaks against this way, "" if nothing does.

    Tried on contexts of unlike length, rows that share one, rows that end apart.
    """
    import torch

    tokens = (prompt * 8)[:8]
    lengths = {1: 6, 2: 2, 3: 2}
    asked = [Request(tokens, seed, longest=longest) for seed, longest in lengths.items()]
    asked += [Request(tokens[:3], 4, longest=4)]
    model = unwrap_model(policy.model)
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
