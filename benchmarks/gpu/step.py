"""Phase step/SHAPE: one GRPO step as Graft takes it: sampling, then the update, with the peak of memory of each.

Where the deadline is near, a part is measured and extrapolated: `sample_share` of the tokens of each completion (the
others are random), `update_share` of the groups.

    update_peak_share = (4 N T + 12 L H P + 4 V H C) / seconds / measured bfloat16 rate of this card

of a forward pass and a backward pass by the activations: N weights of the layers, T tokens (a prompt once), L layers of
width H, P pairs of a token and one that it attends to, V tokens of the vocabulary, C completion tokens.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.gpu.env import limits
from benchmarks.gpu.phase import Phase, forget_peak, peak_gib, seconds_of
from benchmarks.gpu.policies import policy_of
from benchmarks.step_sides import FIRST, Shape, groups_of, prompts_of, update_params

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.records import Completion
    from tasks.update.step_plan import UpdateGroup

SAMPLE_TIME = 0.4  # share of the phase's time that sampling may take
GROWTH = 8  # groups of an update: at most so many times those of the one measured before it


def update_flop(policy: "Policy", shape: Shape, groups: int) -> float:
    """Operations of an update of this many groups, by the formula above."""
    layers = sum(w.numel() for name, w in policy.model.named_parameters() if ".layers." in name and "lora_" not in name)
    prompt, length, size = shape.prompt, shape.longest, shape.completions
    tokens, pairs = prompt + size * length, prompt**2 / 2 + size * (length * prompt + length**2 / 2)
    head = 4 * shape.vocabulary * shape.hidden * size * length
    return groups * (4 * layers * tokens + 12 * shape.layers * shape.hidden * pairs + head)


def sample(policy: "Policy", prompts: Sequence[list[int]], size: int, length: int) -> "list[Completion]":
    """`size` completions of each prompt, by the sampler that the stage search has."""
    from tasks.model.sampling.sampler import Request
    from tasks.model.sampling.sampler import sample as sample_requests

    requests = [Request(prompts[i // size], i) for i in range(len(prompts) * size)]
    return sample_requests(policy, requests, 1.0, length, "sample")


def run(phase: Phase) -> None:
    shape, policy, start = phase.shape, policy_of(phase.shape), phase.left
    prompts, rate = prompts_of(shape, shape.prompts), limits(phase)[1]
    short = max(shape.longest // 32, 2)
    sample(policy, prompts, shape.completions, short)
    times = [seconds_of(partial(sample, policy, prompts, shape.completions, n * short)) for n in (1, 2)]
    pace, spent = max(times[1] - times[0], 1e-6) / short, start - phase.left
    length = min(shape.longest, max(int((SAMPLE_TIME * start - spent) / pace), short))
    forget_peak()
    completions: list[Completion] = []
    seconds = seconds_of(lambda: completions.extend(sample(policy, prompts, shape.completions, length)))
    whole = seconds * shape.longest / length
    phase.figure(sample_s=whole, sample_share=length / shape.longest, sample_gib=peak_gib())
    phase.figure(sample_tokens_s=len(completions) * length / seconds)
    rng = random.Random(0)
    rest = [[rng.randrange(FIRST, shape.vocabulary) for _ in range(shape.longest - length)] for _ in completions]
    written = [
        c.model_copy(update={"tokens": [*c.tokens, *more], "logprobs": [*c.logprobs, *(0.0 for _ in more)]})
        for c, more in zip(completions, rest, strict=True)
    ]
    with phase.part("update"):
        _update(phase, policy, groups_of(prompts, written), rate, whole)


def _update(phase: Phase, policy: "Policy", groups: "list[UpdateGroup]", rate: float, sample_s: float) -> None:
    from benchmarks.support.workspace import PROJECT
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.params.file import load_params
    from tasks.update.compute import update_scorer
    from tasks.update.step_plan import Step
    from tasks.update.update import optimizer_step, start_training

    update, shape = update_params(), phase.shape
    samples = [s for g in groups for s in g.samples]
    scorer = replace(update_scorer(policy, samples, load_params(PROJECT / "params.yaml")), temperature=1.0)
    training, plan = start_training(policy.model, update, 100), scorer.batches(samples)
    phase.figure(layout=plan[0].layout, micro_batches=len(plan), micro_batch_tokens=max(b.tokens for b in plan))

    def take(count: int) -> None:
        step = Step(1, groups[:count])
        optimizer_step(training, scorer, step, behaviour_logprobs(scorer, step.samples), None, update)

    take(1)
    count, following = 0, 1
    while following > count:
        count = following
        forget_peak()
        seconds = seconds_of(partial(take, count))
        whole = seconds * len(groups) / count
        phase.figure(update_s=whole, update_share=count / len(groups), update_gib=peak_gib(), step_s=whole + sample_s)
        phase.figure(update_tokens_s=count * shape.completions * shape.longest / seconds)
        phase.figure(update_peak_share=update_flop(policy, shape, count) / seconds / rate)
        fitting = int((phase.left - 3) / (1.2 * seconds / count))
        following = min(len(groups), GROWTH * count, fitting)
