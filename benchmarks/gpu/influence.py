"""Phase influence/SHAPE: influence of 64 samples on as many others, in seconds and as a multiple of a plain pass.

A plain pass is forward and backward over all 128 rows. `rows` and `local` measure gradients of all positions, as the
stage select does, and `constant` those of the completions alone.
"""

from functools import partial

from benchmarks.gpu.phase import Phase, cost_of, median_seconds
from benchmarks.gpu.policies import policy_of, random_groups, samples_of
from benchmarks.step_sides import PAD
from benchmarks.support.plain_influence import plain
from tasks.params.fields import Similarity

ROWS = 16  # of a plain micro-batch


def run(phase: Phase) -> None:
    from tasks.model.scoring.scorer import Scorer, with_constant_prompts
    from tasks.objective.token_weights import TokenWeights
    from tasks.select.losses import Validation
    from tasks.select.tracin import Estimator, influences

    policy, (count, length) = policy_of(phase.shape), (8, 8) if phase.is_tiny else (64, 128)
    train, held_out = (samples_of(random_groups(phase.shape, count // 4, 4, (length,) * 2, seed)) for seed in (0, 1))
    scorer = Scorer(policy.model, PAD, 1.0, "rows", tokens=8192)
    parts = [rows[i : i + ROWS] for rows in (train, held_out) for i in range(0, count, ROWS)]
    plain_s = median_seconds(lambda: [plain(scorer, part) for part in parts], 2)
    phase.figure(plain_s=plain_s)
    constant, validation = (
        with_constant_prompts(scorer, [*train, *held_out]),
        Validation(held_out, [s.advantage for s in held_out]),
    )
    ways: dict[str, tuple[Scorer, Similarity]] = {
        "rows": (scorer, "dot"),
        "constant": (constant, "dot"),
        "local": (scorer, "local"),
    }
    for name, (use, similarity) in ways.items():
        with phase.part(name):
            estimator = Estimator(similarity, budget=2**35)
            work = partial(influences, use, train, TokenWeights("dapo", length), validation, estimator)
            work()  # the plain passes were not the first either
            seconds, memory = cost_of(work)
            phase.figure(f"{name}_", s=seconds, ratio=seconds / plain_s, gib=memory)
