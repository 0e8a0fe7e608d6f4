"""Phase profile/SHAPE: launches and GPU milliseconds of a decoding step and of a micro-batch; tables as text files."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.gpu.phase import Phase, median_seconds, synchronize
from benchmarks.gpu.policies import policy_of
from benchmarks.gpu.samples import random_groups
from benchmarks.gpu.step import sample
from benchmarks.step_sides import prompts_of, update_params


def kernels(work: Callable[[], object]) -> tuple[int, float, str]:
    """Launches, graphs' included once, GPU milliseconds, and a table of the longest operations."""
    import torch
    from torch.profiler import ProfilerActivity

    on_card = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_card else [])]
    with torch.profiler.profile(activities=activities) as made:
        work()
        synchronize()
    events: Any = made.key_averages()
    count = sum(e.count for e in events if e.key.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch")))
    busy = sum(e.self_device_time_total for e in events if str(e.device_type).endswith("CUDA")) / 1e3
    order = "self_device_time_total" if on_card else "self_cpu_time_total"
    return count, busy, events.table(sort_by=order, row_limit=30, max_name_column_width=60)


def run(phase: Phase) -> None:
    from tasks.model.scoring.scorer import scorer_for
    from tasks.objective.recorded_logprobs import behaviour_logprobs
    from tasks.update.gradient import accumulate_gradient

    shape, policy = phase.shape, policy_of(phase.shape)
    prompts = prompts_of(shape, shape.prompts)
    with phase.part("decode"):
        work = {length: partial(sample, policy, prompts, shape.completions, length) for length in (4, 8)}
        for each in work.values():
            each()
        (few, less, _), (many, more, table) = (kernels(each) for each in work.values())
        phase.figure(decode_launches=(many - few) / 4, decode_gpu_ms=(more - less) / 4)
        (phase.folder / "profile_decode.txt").write_text(table)
    with phase.part("update"):
        length = shape.longest
        groups = random_groups(shape, 1, shape.completions, (length, length))
        params, samples = update_params(), groups[0].samples
        scorer = scorer_for(policy, samples, 1.0, params.micro_batch_tokens)
        behaviour = behaviour_logprobs(scorer, samples)
        learn = partial(accumulate_gradient, scorer, groups, behaviour, None, params)
        seconds = median_seconds(learn, 3)
        count, busy, table = kernels(learn)
        batches = len(scorer.batches(samples))
        phase.figure(update_ms=seconds * 1e3, update_launches=count, update_gpu_ms=busy, update_micro_batches=batches)
        (phase.folder / "profile_update.txt").write_text(table)
