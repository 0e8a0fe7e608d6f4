"""Phase influence/SHAPE: influence of 64 samples on as many others, in seconds and as a multiple of a plain pass.

A plain pass is forward and backward over the 64 rows. `rows` measures gradients of all positions, `constant` those of
the completions alone, as the stage select does.
"""

from benchmarks.gpu.phase import Phase, forget_peak, median_seconds, peak_gib, seconds_of
from benchmarks.gpu.policies import policy_of
from benchmarks.gpu.samples import random_groups
from benchmarks.step_sides import PAD

ROWS = 16  # of a plain micro-batch


def run(phase: Phase) -> None:
    import torch

    from tasks.model.scoring.micro_batches import MicroBatch
    from tasks.model.scoring.scorer import Scorer, with_constant_prompts
    from tasks.objective.token_weights import TokenWeights
    from tasks.select.losses import Validation
    from tasks.select.tracin import Measure, influences

    shape, policy = phase.shape, policy_of(phase.shape)
    count, length = (8, shape.longest) if phase.is_tiny else (64, 128)
    train, held_out = (
        [s for g in random_groups(shape, count // 4, 4, (length, length), seed) for s in g.samples] for seed in (0, 1)
    )
    scorer = Scorer(policy.model, PAD, 1.0, "rows", tokens=8192)
    weights = [weight for weight in policy.model.parameters() if weight.requires_grad]

    def plain() -> None:
        for start in range(0, count, ROWS):
            batch = MicroBatch("rows", [[s] for s in train[start : start + ROWS]])
            torch.autograd.grad(scorer.score(batch).logprobs.sum(), weights)

    forget_peak()
    plain_s = median_seconds(plain, 2)
    phase.figure(plain_s=plain_s, plain_gib=peak_gib())
    averaging, validation = TokenWeights("dapo", length), Validation(held_out, [s.advantage for s in held_out])
    for name, similarity, budget in (("rows", "dot", 1), ("constant", "dot", 1), ("local", "local", 32)):
        with phase.part(name):
            use = scorer if name == "rows" else with_constant_prompts(scorer, [*train, *held_out])
            measure = Measure(similarity=similarity, budget=budget * 2**30)  # type: ignore[arg-type]
            forget_peak()
            seconds = seconds_of(lambda: influences(use, train, averaging, validation, measure))  # noqa: B023
            phase.figure(**{f"{name}_s": seconds, f"{name}_ratio": seconds / plain_s, f"{name}_gib": peak_gib()})
