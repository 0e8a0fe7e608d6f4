"""AUC of influence as a detector of flipped rewards, at the first policy of a run of `benchmarks.selection`."""

from pathlib import Path

from benchmarks.influence_selection.training_run import Rollouts, samples_of, validation_of
from benchmarks.influence_selection.variants import PROBLEMS, Variant
from benchmarks.influence_selection.weights import RoundSamples, compute_influences
from benchmarks.influence_selection.world import (
    FLIPPED,
    is_flipped,
    rewards_of,
    rotate_problems,
    sample_problems,
    trusted_of,
    world_of,
)

GROUP = 8


def auc(folder: Path, seed: int, trusted: int) -> float:
    """AUC of influence on `trusted` completions for flipped against other rewards; 0.5 is chance.

    Measured at the workspace's first policy, among the samples of one round that would be trained on.
    """
    import torch
    from scipy.stats import mannwhitneyu

    from tasks.layout import Layout
    from tasks.model.policy import load_policy
    from tasks.model.scoring.scorer import scorer_for

    torch.set_num_threads(1)
    world, policy = world_of(folder), load_policy(Layout(folder).policy(0))
    problems = rotate_problems(sample_problems(world.problems["train"], PROBLEMS, seed, 0), 0)
    training = Rollouts(problems, world.rollouts(policy, problems, GROUP, "train", seed, 0))
    held_out = validation_of(world, policy, trusted, seed, 0)
    samples = samples_of(policy, training, rewards_of("flipped", problems, training.groups, seed, 0))
    given = RoundSamples(samples, samples, samples_of(policy, held_out, trusted_of(held_out.groups)))
    scorer = scorer_for(policy, [*samples, *given.trusted], 1.0, world.params.update.micro_batch_tokens)
    found = compute_influences(scorer, given, Variant("positive", trusted, similarity="local"))
    flips = [
        is_flipped(problem, member, seed, 0, FLIPPED["flipped"]) for problem in problems for member in range(GROUP)
    ]
    rows = [(i, flip) for i, s, flip in zip(found, given.learnable, flips, strict=True) if s.advantage]
    flipped, others = [i for i, flip in rows if flip], [i for i, flip in rows if not flip]
    return float(mannwhitneyu(others, flipped).statistic) / (len(others) * len(flipped))
