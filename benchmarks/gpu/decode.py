"""Phase decode/SHAPE: milliseconds of a decoding step, by backend and rows, against what the memory allows.

A step is the difference between two completed batches of different lengths, over the difference of their steps, so that
prefill and capture are left out. `bandwidth_share` is that of the fastest backend at 512 rows:

    bytes of the weights and of each row's keys and values / copy bandwidth of this card / seconds of a step
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.env import limits
from benchmarks.gpu.phase import Phase, forget_peak, peak_gib, seconds_of
from benchmarks.gpu.policies import policy_of
from benchmarks.step_sides import PAD, Shape, prompts_of

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.records import Completion

GROUP = 8  # rows of each prompt
FAST = 3.0  # seconds of a batch that is measured more than once

Run = Callable[[int, int], "list[Completion]"]
"""(rows, tokens) → completions, none where they are not known."""


def backends() -> dict[str, Callable[..., None]]:
    """Graft's backends by name, all functions of a model and a batch, but two for other models."""
    from tasks.model.sampling import backends

    functions = inspect.getmembers(backends, inspect.isfunction)
    other = (backends.generate, backends.decode_blocks)
    public = {name: work for name, work in functions if not name.startswith("_") and work not in other}
    return {
        name: work
        for name, work in public.items()
        if list(inspect.signature(work).parameters)[:2] == ["model", "state"]
    }


def step_bytes(policy: "Policy", shape: Shape, rows: int, context: float) -> float:
    """Bytes that a decoding step reads at least: the base, and the keys and values of each row's context."""
    base = sum(w.numel() * w.element_size() for name, w in policy.model.named_parameters() if "lora_" not in name)
    head = shape.hidden // shape.heads
    return base + rows * context * shape.layers * 2 * shape.key_heads * head * 2


def run(phase: Phase) -> None:
    from tasks.model.hf_model import unwrap_model

    shape, policy = phase.shape, policy_of(phase.shape)
    bandwidth, least = limits(phase)[0], dict[int, float]()
    ways: dict[str, Run] = {name: partial(_ours, policy, shape, work) for name, work in backends().items()}
    for rows in (8, 16) if phase.is_tiny else (512, 64, 1024):
        for name, way in (ways | {"transformers": partial(_theirs, policy, shape)}).items():
            if phase.left < 15 or (name == "transformers" and rows in (64, 1024)):
                phase.figure(**{f"{name}_{rows}_skipped": True})
                continue
            with phase.part(f"{name}_{rows}"):
                short, long = (2, 6) if phase.is_tiny else (8, 72)
                ms, completions = _step_ms(way, rows, short, long)
                phase.figure(**{f"{name}_{rows}_ms": ms, f"{name}_{rows}_gib": peak_gib()})
                bound = step_bytes(policy, shape, rows, shape.prompt + (short + long) / 2) / bandwidth * 1e3
                phase.figure(**{f"bound_{rows}_ms": bound})
                if name in ways:
                    least[rows] = min(ms, least.get(rows, ms))
                    if rows in (16, 512):
                        phase.figure(bandwidth_share=bound / least[rows], tokens_s=rows / least[rows] * 1e3)
                if completions:
                    mean = _mean_difference(unwrap_model(policy.model), prompts_of(shape, rows)[:GROUP], completions)
                    phase.figure(**{f"{name}_{rows}_logprob_difference": mean})


def _step_ms(way: Run, rows: int, short: int, long: int) -> "tuple[float, list[Completion]]":
    """Milliseconds of a step, and the completions of the last batch."""
    completions: list[Completion] = []
    way(rows, short)
    forget_peak()
    first = seconds_of(lambda: way(rows, short))
    second = seconds_of(lambda: completions.extend(way(rows, long)))
    if second < FAST:  # each captures its graph
        first, second = (min(seconds_of(partial(way, rows, length)) for _ in range(4)) for length in (short, long))
    return (second - first) / (long - short) * 1e3, completions


def _ours(policy: "Policy", shape: Shape, backend: Callable[..., None], rows: int, length: int) -> "list[Completion]":
    from tasks.model.hf_model import unwrap_model
    from tasks.model.sampling.batch_state import BatchState, Request

    prompts = prompts_of(shape, rows // GROUP)
    requests = [Request(prompts[i // GROUP], i) for i in range(rows)]
    state = BatchState(requests, 1.0, length, policy.end_tokens, policy.device)
    backend(unwrap_model(policy.model), state)
    return state.completions()


def _theirs(policy: "Policy", shape: Shape, rows: int, length: int) -> "list[Completion]":
    import torch

    prompts = prompts_of(shape, rows // GROUP)
    ids = torch.tensor([prompts[i // GROUP] for i in range(rows)], device=policy.device)
    more = {"max_new_tokens": length, "min_new_tokens": length, "do_sample": True, "eos_token_id": None}
    with torch.inference_mode():
        policy.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), pad_token_id=PAD, **more)
    return []


def _mean_difference(model: Any, prompts: list[list[int]], completions: "list[Completion]") -> float:
    """Mean of |recorded - own| over the log-probabilities of the first row of some prompts; own: a plain forward."""
    import torch

    sizes = []
    for prompt, completion in zip(prompts, completions[::GROUP], strict=False):
        ids = torch.tensor([[*prompt, *completion.tokens]], device=model.device)
        with torch.inference_mode():
            scores = model(input_ids=ids).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
        own = scores.gather(-1, ids[0, len(prompt) :, None])[:, 0].tolist()
        sizes += [abs(a - b) for a, b in zip(own, completion.logprobs, strict=True)]
    return sum(sizes) / len(sizes)
