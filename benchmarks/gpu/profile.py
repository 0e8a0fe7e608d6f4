"""Phase profile/SHAPE: launches and GPU milliseconds of a decoding step and of a micro-batch; tables as text files."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.gpu.phase import Phase, cost_of, median_seconds
from benchmarks.gpu.policies import policy_of, random_groups, samples_of
from benchmarks.gpu.step import sample
from benchmarks.step_sides import prompts_of, update_params


def kernels(work: Callable[[], object]) -> tuple[int, float, str]:
    """Launches, a graph being one, GPU milliseconds, and a table of the longest operations."""
    import torch
    from torch.profiler import ProfilerActivity

    on_card = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_card else [])]
    with torch.profiler.profile(activities=activities) as made:
        cost_of(work)
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
    with phase.part("decode"):
        work = partial(sample, policy, prompts_of(shape, shape.prompts), shape.completions)
        work(8)
        (few, less, _), (many, more, table) = (kernels(partial(work, length)) for length in (4, 8))
        phase.figure("decode_", launches=(many - few) / 4, gpu_ms=(more - less) / 4)
        (phase.folder / "profile_decode.txt").write_text(table)
    with phase.part("update"):
        groups = random_groups(shape, 1, shape.completions, (shape.longest, shape.longest))
        params, samples = update_params(), samples_of(groups)
        scorer = scorer_for(policy, samples, 1.0, params.micro_batch_tokens)
        update = partial(accumulate_gradient, scorer, groups, behaviour_logprobs(scorer, samples), None, params)
        seconds, (count, busy, table) = median_seconds(update, 3), kernels(update)
        phase.figure("update_", ms=seconds * 1e3, launches=count, gpu_ms=busy, batches=len(scorer.batches(samples)))
        (phase.folder / "profile_update.txt").write_text(table)
