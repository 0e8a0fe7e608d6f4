"""Phase trl/SHAPE/plain and trl/SHAPE/continuous: the same step of TRL's GRPOTrainer on the same card.

Completions by transformers' `generate`, or by its continuous batching as TRL's page on it says; no gradient
checkpointing, which is faster where memory suffices. Until its step is complete the update is extrapolated from the
micro-batches done, `update_share`. A second step takes the first one's place.
"""

import time
from typing import Any

from benchmarks.gpu.phase import Phase, cost_of, peak_gib
from benchmarks.gpu.policies import base_of
from benchmarks.step_sides import reward, trainer_of

MICRO_BATCH = 16
CONTINUOUS = {
    "use_transformers_continuous_batching": True,
    "transformers_continuous_batching_config": {"max_memory_percent": 0.4, "use_cuda_graph": False},
}


def run(phase: Phase) -> None:
    import torch
    from transformers import TrainerCallback

    shape, is_cpu = phase.shape, not torch.cuda.is_available()
    rows = shape.prompts * shape.completions
    micro, sample_s, sample_gib, start, done = min(MICRO_BATCH, rows // 2), 0.0, 0.0, 0.0, 0

    class Steps(TrainerCallback):  # type: ignore[misc]
        """Figures of an update after 2, 4, 8 … micro-batches, and at its end."""

        def on_substep_end(self, *_args: Any, **_more: Any) -> None:
            nonlocal done
            done += 1
            if done & (done - 1) == 0:
                figures(done * micro / rows)

        def on_step_end(self, *_args: Any, **_more: Any) -> None:
            figures(1.0)

    def figures(share: float) -> None:
        update_gib = peak_gib()
        update_s = (time.perf_counter() - start) / share
        phase.figure("update_", s=update_s, share=share, gib=update_gib)
        phase.figure(step_s=sample_s + update_s, gib=max(sample_gib, update_gib))

    def rewards(completion_ids: list[list[int]], **_more: Any) -> list[float]:
        phase.figure(sample_tokens_s=sum(map(len, completion_ids)) / sample_s)
        return [reward(ids) for ids in completion_ids]

    more: dict[str, Any] = CONTINUOUS if phase.arguments[1] == "continuous" else {}
    more = more | {"per_device_train_batch_size": micro, "gradient_accumulation_steps": rows // micro}
    trainer = trainer_of(shape, base_of(shape), rewards, Steps(), use_cpu=is_cpu, bf16=not is_cpu, max_steps=2, **more)
    generate = trainer._generate_single_turn

    def timed(*args: Any, **settings: Any) -> Any:
        nonlocal sample_s, sample_gib, start, done
        turns: list[Any] = []
        sample_s, sample_gib = cost_of(lambda: turns.append(generate(*args, **settings)))
        start, done = time.perf_counter(), 0
        phase.figure("sample_", s=sample_s, gib=sample_gib)
        return turns[0]

    trainer._generate_single_turn = timed
    trainer.train()
