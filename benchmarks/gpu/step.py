"""Phase step/SHAPE: one GRPO step as Graft takes it: sampling, then the update, with the peak of memory of each.

Words after the shape are params of the update's forward passes: step/0.5b/update.checkpointing=true.

Where the deadline is near, a part is measured and extrapolated: `sample_share` of the tokens of each completion, which
the update then has alone, `update_share` of the groups.

`update_peak_share`: the operations of the update (tests/support/update_flop.py) in its seconds, as a share of the
measured bfloat16 rate of this card.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.gpu.env import limits
from benchmarks.gpu.phase import Phase, cost_of
from benchmarks.gpu.policies import policy_of, samples_of
from benchmarks.step_sides import groups_of, prompts_of, update_params
from benchmarks.support.short_runs import params_of
from tests.support.update_flop import update_flop

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.records.search import Completion
    from tasks.update.step_plan import UpdateGroup

SAMPLE_TIME = 0.4  # share of the phase's time that sampling may take
GROWTH = 8  # most groups of an update, as a multiple of those of the one measured before it


def sample(policy: "Policy", prompts: Sequence[list[int]], size: int, length: int) -> "list[Completion]":
    """`size` completions of each prompt, by the sampler that the stage search has."""
    from tasks.model.sampling import sampler

    requests = [sampler.Request(prompts[i // size], i) for i in range(len(prompts) * size)]
    return sampler.sample(policy, requests, 1.0, length, "sample")


def run(phase: Phase) -> None:
    shape, policy, start = phase.shape, policy_of(phase.shape), phase.left
    prompts, rate, short = prompts_of(shape, shape.prompts), limits(phase)[1], max(shape.longest // 32, 2)
    work = partial(sample, policy, prompts, shape.completions)
    work(short)
    first, second = (cost_of(partial(work, length))[0] for length in (short, 2 * short))
    pace = max(second - first, 1e-6) / short
    length = min(shape.longest, max(int((SAMPLE_TIME * start - start + phase.left) / pace), short))
    completions: list[Completion] = []
    seconds, memory = cost_of(lambda: completions.extend(work(length)))
    tokens, share = len(completions) * length, length / shape.longest
    phase.figure("sample_", s=seconds / share, share=share, gib=memory, tokens_s=tokens / seconds)
    with phase.part("update"):
        _update(phase, policy, groups_of(prompts, completions), rate, seconds / share)


def _update(phase: Phase, policy: "Policy", groups: "list[UpdateGroup]", rate: float, sample_s: float) -> None:
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.update.compute import update_scorer
    from tasks.update.step_plan import Step
    from tasks.update.update import optimizer_step, start_training

    samples, update = samples_of(groups), update_params()
    scorer = replace(update_scorer(policy, samples, params_of(phase.arguments[1:])), temperature=1.0)
    training, plan = start_training(policy.model, update, 100), scorer.batches(samples)
    phase.figure(layout=plan[0].layout, micro_batches=len(plan), micro_batch_tokens=max(b.tokens for b in plan))
    length = len(samples[0].completion)
    tokens, whole = phase.shape.completions * length, len(groups) * phase.shape.longest / length

    def take(count: int) -> None:
        step = Step(1, groups[:count])
        optimizer_step(training, scorer, step, behaviour_logprobs(scorer, step.samples, later=()), None, update)

    take(1)
    count, following = 0, 1
    while following > count:
        count = following
        seconds, memory = cost_of(partial(take, count))
        phase.figure("update_", s=seconds / count * whole, share=count / whole, gib=memory)
        flop = count * update_flop(policy.model, phase.shape.prompt, phase.shape.completions, length)
        phase.figure("update_", tokens_s=count * tokens / seconds, peak_share=flop / seconds / rate)
        phase.figure(step_s=seconds / count * whole + sample_s)
        following = min(len(groups), GROWTH * count, int((phase.left - 3) / (1.2 * seconds / count)))
