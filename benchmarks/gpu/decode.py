"""Phase decode/SHAPE: milliseconds of a decoding step, by backend and rows, against what the memory allows.

A step is the difference between two batches of different lengths over that of their steps, which leaves prefill and
capture out. `bandwidth_share` is that of the fastest backend at 512 rows:

    bytes of the base and of each row's keys and values / copy bandwidth of this card / seconds of a step
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.gpu.env import limits
from benchmarks.gpu.phase import Phase, cost_of
from benchmarks.gpu.policies import base_weights, policy_of
from benchmarks.step_sides import PAD, Shape, prompts_of
from tasks.model.hf_model import unwrap_model

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.records.search import Completion

GROUP = 8  # rows of each prompt
FAST = 3.0  # seconds of a batch that is measured more than once

Decode = Callable[[int, int], "list[Completion]"]
"""(rows, tokens) → completions, none where they are not known."""


def backends() -> dict[str, Callable[..., None]]:
    """Graft's backends by name, all functions of a model and a batch, but two for other models."""
    from tasks.model.sampling import backends

    public = {name: work for name, work in inspect.getmembers(backends, inspect.isfunction) if name[0] != "_"}
    public = {name: work for name, work in public.items() if name not in ("decode_without_cache", "decode_blocks")}
    return {name: w for name, w in public.items() if list(inspect.signature(w).parameters)[:2] == ["model", "state"]}


def run(phase: Phase) -> None:
    shape, policy = phase.shape, policy_of(phase.shape)
    bandwidth, most, (short, long) = (
        limits(phase)[0],
        64 if phase.is_tiny else 512,
        (2, 6) if phase.is_tiny else (8, 72),
    )
    ours: dict[str, Decode] = {name: partial(_decode, policy, shape, work) for name, work in backends().items()}
    base = sum(weight.numel() * weight.element_size() for weight in base_weights(policy).values())
    keys = 2 * shape.layers * shape.key_heads * shape.hidden // shape.heads * 2 * (shape.prompt + (short + long) / 2)
    for rows in (most, most // 8, most * 2):
        bound, least = (base + rows * keys) / bandwidth * 1e3, float("inf")
        theirs: dict[str, Decode] = {"transformers": partial(_generate, policy, shape)} if rows == most else {}
        for name, decode in (ours | theirs).items():
            if phase.left < 12:
                return
            with phase.part(f"{name}_{rows}"):
                completions = decode(rows, short)
                first, second = (cost_of(partial(decode, rows, length)) for length in (short, long))
                if second[0] < FAST:
                    first, second = (min(cost_of(partial(decode, rows, n)) for _ in range(4)) for n in (short, long))
                ms = (second[0] - first[0]) / (long - short) * 1e3
                phase.figure(f"{name}_{rows}_", ms=ms, bound_ms=bound, gib=second[1])
                if completions:
                    least, differences = min(ms, least), _differences(policy, shape, rows, completions)
                    phase.figure(f"{name}_{rows}_", logprob_difference=sum(differences) / len(differences))
                    if rows == most:
                        phase.figure(bandwidth_share=bound / least, tokens_s=rows / least * 1e3)


def _decode(policy: "Policy", shape: Shape, backend: Callable[..., None], rows: int, length: int) -> "list[Completion]":
    from tasks.model.decoding.batch_state import BatchState, Request

    prompts = prompts_of(shape, rows // GROUP)
    requests = [Request(prompts[i // GROUP], i) for i in range(rows)]
    state = BatchState(requests, 1.0, length, policy.end_tokens, policy.device)
    backend(unwrap_model(policy.model), state)
    return state.completions()


def _generate(policy: "Policy", shape: Shape, rows: int, length: int) -> "list[Completion]":
    import torch

    prompts = prompts_of(shape, rows // GROUP)
    ids = torch.tensor([prompts[i // GROUP] for i in range(rows)], device=policy.device)
    more = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": True, "eos_token_id": None}
    with torch.inference_mode():
        policy.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), pad_token_id=PAD, **more)
    return []


def _differences(policy: "Policy", shape: Shape, rows: int, completions: "list[Completion]") -> list[float]:
    """|recorded - plain forward pass| of the log-probabilities of the first row of some prompts."""
    import torch

    sizes = []
    for prompt, completion in zip(prompts_of(shape, rows // GROUP)[:GROUP], completions[::GROUP], strict=False):
        ids = torch.tensor([[*prompt, *completion.tokens]], device=policy.device)
        with torch.inference_mode():
            scores = unwrap_model(policy.model)(input_ids=ids).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
        plain = scores.gather(-1, ids[0, len(prompt) :, None])[:, 0].tolist()
        sizes += [abs(a - b) for a, b in zip(plain, completion.logprobs, strict=True)]
    return sizes
