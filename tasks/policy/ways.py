"""How a policy is sampled: the fastest way that keeps the law, tried out on a few short rows of the policy itself.

The law: the log-probabilities that the sampler records are those of teacher forcing, one plain forward pass of the
policy without cache, padding or merged adapter. It finds a model whose cache, positions or masks are silently wrong.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from tasks.policy.base import Policy
from tasks.policy.decoding import decode
from tasks.policy.generation import generate
from tasks.policy.rows import Request, Rows

logger = logging.getLogger(__name__)

MERGED_PARAMETERS = 500_000_000  # up to this size the adapter is merged into a copy: 1.3 × faster sampling

Way = tuple[Any, Callable[[Any, Rows], None]]  # a model, and what writes rows with it

_verdicts: WeakKeyDictionary[Any, dict[str, str]] = (
    WeakKeyDictionary()
)  # of a policy's model: way → why not, "" = it does


def way_of(policy: Policy, prompt: list[int]) -> Way:
    """A model and what writes rows with it: our loop, with the adapter merged if it can be, or `generate`.

    `prompt` lends its tokens to the trial, which a model has once. A way that is passed over is logged with the reason.
    """
    verdicts = _verdicts.setdefault(policy.model, {})
    ways = list(_ways(policy))
    for name, make in ways:
        if verdicts.get(name) and name != ways[-1][0]:
            continue
        model, write = make()
        if name not in verdicts:
            verdicts[name] = _why_not(policy, model, write, prompt)
            if verdicts[name]:
                logger.warning("policy: %s does not sample it: %s", name, verdicts[name])
        if not verdicts[name]:
            break
    return model, write  # the last one whatever its verdict: nothing comes after it


def _ways(policy: Policy) -> Iterator[tuple[str, Callable[[], Way]]]:
    model = plain_model(policy)
    if policy.has_adapter and sum(p.numel() for p in model.parameters()) <= MERGED_PARAMETERS:
        yield "our loop with the adapter merged", lambda: (merged(policy.model), decode)
    yield "our loop", lambda: (model, decode)
    yield "our loop without shared contexts", lambda: (model, partial(decode, share=False))
    yield "transformers' generate", lambda: (model, generate)
    yield "transformers' generate without a cache", lambda: (model, partial(generate, use_cache=False))


def plain_model(policy: Policy) -> Any:
    """The transformers model; where the policy has an adapter its layers are inside."""
    return policy.model.get_base_model() if policy.has_adapter else policy.model


def merged(model: Any) -> Any:
    """A copy of a peft model with its adapter merged. What the adapter leaves as it is, is shared and not copied."""
    import torch
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = {id(p) for m in model.modules() if isinstance(m, BaseTunerLayer) for p in m.parameters()}
    shared = {id(p): p for p in model.parameters() if id(p) not in adapted}
    with torch.inference_mode():
        return copy.deepcopy(model, shared).merge_and_unload().eval()


def _why_not(policy: Policy, model: Any, write: Callable[[Any, Rows], None], prompt: list[int]) -> str:
    """What speaks against this way, "" if nothing does.

    Tried on contexts of unlike length, rows that share one, rows that end apart.
    """
    import torch

    tokens = (prompt * 8)[:8]
    lengths = {1: 6, 2: 2, 3: 2}
    asked = [Request(tokens, seed, longest=longest) for seed, longest in lengths.items()]
    asked += [Request(tokens[:3], 4, longest=4)]
    rows = Rows(asked, temperature=1.0, max_new_tokens=6, eos=None, device=policy.device)
    try:
        write(model, rows)
    except Exception as error:  # noqa: BLE001  a model that lacks what this way needs may raise anything
        return f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
    differences = []
    for request, completion in zip(asked, rows.completions(), strict=True):
        ids = torch.tensor([[*request.prompt, *completion.tokens]], device=policy.device)
        with torch.inference_mode():
            logits = plain_model(policy)(input_ids=ids).logits[0, len(request.prompt) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(-1, ids[0, len(request.prompt) :, None])[:, 0].tolist()
        differences += [abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True)]
    mean = sum(differences) / len(differences)
    allowed = max(torch.finfo(p.dtype).eps for p in model.parameters() if p.is_floating_point()) ** 0.5
    return "" if mean <= allowed else f"its log-probabilities are {mean:.2g} from those of a plain forward pass"
