"""Choose a sampling backend: the fastest whose log-probabilities equal a plain forward pass on a short probe.

graph      a step of the loop captured as a CUDA graph            CUDA, attention that can be replaced
blocks     the decoding loop on Llama's blocks written out        float32 on a CPU, Llama's architecture
loop       the decoding loop on the model's own forward pass      it fills a key-value cache
recompute  a forward pass over all tokens for each new one        any model

The probe finds a model whose cache, positions or masks are silently wrong.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch

from tasks.model.cpu.decoder_blocks import decode_blocks, is_supported
from tasks.model.cuda.graph_decode import decode_graph
from tasks.model.decoding.batch_state import BatchState, Request
from tasks.model.decoding.decode_loop import decode
from tasks.model.device import for_device
from tasks.model.hf_model import forward_to_logits, unwrap_model
from tasks.model.policy import Policy

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
    of_cpu = {"blocks": decode_blocks} if is_supported(unwrap_model(policy.model)) else {}
    fastest = for_device(policy.device, cpu=of_cpu, cuda={"graph": decode_graph})
    for name, backend in (fastest | {"loop": decode}).items():
        if name not in results:
            results[name] = _probe(policy, partial(backend, max_copied=PROBE_COPIED_TOKENS), prompt)
            if results[name]:
                logger.warning("policy: backend %s does not sample it: %s", name, results[name])
        if not results[name]:
            return backend
    return decode_without_cache


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
    differences = []  # of log-probabilities: tokens were drawn, and any of them may be right
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


def decode_without_cache(model: Any, state: BatchState) -> None:
    """Complete a batch by forward passes over all tokens of a row for each new one."""
    forward = forward_to_logits(model)
    lengths = torch.tensor([len(request.context) for request in state.requests], device=state.device)
    with torch.inference_mode():
        for length in sorted(set(lengths.tolist())):  # rows of one length need no padding, which a model may get wrong
            live = (lengths == length).nonzero()[:, 0]
            ids = torch.tensor([state.requests[row].context for row in live.tolist()], device=state.device)
            for step in range(int(state.lengths[live].max())):
                logits = forward(1, input_ids=ids)[:, -1]
                ids = torch.cat([ids, state.append(logits, live, step)[:, None]], 1)
                if not state.unfinished[live].any():
                    break
