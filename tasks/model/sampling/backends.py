"""Choose a sampling backend: the fastest whose log-probabilities equal a plain forward pass on a short probe.

graph      a step of the loop captured as a CUDA graph            CUDA, attention that can be replaced
blocks     the decoding loop on Llama's blocks written out        float32 on a CPU, Llama's architecture
loop       the decoding loop on the model's own forward pass      it fills a key-value cache
generate   transformers' own `generate`, without a cache          any model

The probe finds a model whose cache, positions or masks are silently wrong.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tasks.model.hf_model import unwrap_model
from tasks.model.layers.decoder_blocks import is_supported
from tasks.model.policy import Policy
from tasks.model.sampling.batch_state import BatchState, Request
from tasks.model.sampling.decode_loop import decode, decode_blocks
from tasks.model.sampling.graph_decode import decode_graph

PROBE_COPIED_TOKENS = 20
"""`max_copied` of a probe: it begins with shared contexts and ends with copied ones."""


Backend = Callable[[Any, BatchState], None]
"""Completes a batch with a transformers model."""

_probe_results: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()
"""Model of a policy → backend → its fault, "" = none."""

logger = logging.getLogger(__name__)


def pick_backend(policy: Policy, prompt: list[int]) -> Backend:
    """The backend that samples the policy's `unwrap_model`; one that is passed over is logged with the reason.

    The probe takes its tokens from `prompt`; each backend is probed once per model.
    """
    results = _probe_results.setdefault(policy.model, {})
    backends = {"loop": decode}
    if policy.device.type == "cuda":
        backends = {"graph": decode_graph, "loop": decode}
    elif is_supported(unwrap_model(policy.model)):
        backends = {"blocks": decode_blocks, "loop": decode}
    for name, backend in backends.items():
        if name not in results:
            results[name] = _probe(policy, partial(backend, max_copied=PROBE_COPIED_TOKENS), prompt)
            if results[name]:
                logger.warning("policy: backend %s does not sample it: %s", name, results[name])
        if not results[name]:
            return backend
    return generate


def _probe(policy: Policy, backend: Backend, prompt: list[int]) -> str:
    """The backend's fault, "" if none. Contexts differ in length, some are shared, and completions differ in length."""
    tokens = (prompt * 8)[:8]
    lengths = {1: 6, 2: 2, 3: 2}
    requests = [Request(tokens, seed, max_tokens=length) for seed, length in lengths.items()]
    requests += [Request(tokens[:3], 4, max_tokens=4)]
    model = unwrap_model(policy.model)
    state = BatchState(requests, temperature=1.0, max_new_tokens=6, ends=(), device=policy.device)
    try:
        backend(model, state)
    except Exception as error:  # noqa: BLE001  a model that lacks what the backend needs may raise anything
        return f"{type(error).__name__}: {str(error).strip().split(chr(10))[0]}"
    differences = []
    for request, completion in zip(requests, state.completions(), strict=True):
        ids = torch.tensor([[*request.prompt, *completion.tokens]], device=policy.device)
        with torch.inference_mode():
            logits = model(input_ids=ids).logits[0, len(request.prompt) - 1 : -1].float()
        expected = logits.log_softmax(-1).gather(-1, ids[0, len(request.prompt) :, None])[:, 0].tolist()
        differences += [abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True)]
    mean = sum(differences) / len(differences)
    dtypes = {torch.float32, *(p.dtype for p in model.parameters() if p.is_floating_point())}  # float32: of `logits`
    allowed = max(torch.finfo(dtype).eps for dtype in dtypes) ** 0.5
    return "" if mean <= allowed else f"its log-probabilities differ by {mean:.2g} from those of a plain forward pass"


def generate(model: Any, state: BatchState) -> None:
    """Complete a batch with a transformers model, through its `generate`."""
    lengths = [len(request.context) for request in state.requests]
    with torch.inference_mode(), _default_generation_config(model):
        for length in sorted(set(lengths)):
            _generate(model, state, [i for i, other in enumerate(lengths) if other == length])


def _generate(model: Any, state: BatchState, places: Sequence[int]) -> None:
    from transformers import GenerationConfig

    live = torch.tensor(places, device=state.device)
    ids = torch.tensor([state.requests[i].context for i in places], device=state.device)
    steps = int(state.lengths[live].max())
    end = state.ends[0] if state.ends else 0

    def only_drawn(seen: Tensor, logits: Tensor) -> Tensor:
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

    config, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = config
