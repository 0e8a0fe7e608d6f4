"""AUC of influence as a detector of flipped rewards, at the first policy of a run of `benchmarks.selection`."""

from pathlib import Path

from benchmarks.influence_selection.training_run import compute_influences, samples_of, successes, validation_of
from benchmarks.influence_selection.variants import GROUP, PROBLEMS, Variant
from benchmarks.influence_selection.world import is_flipped, rewards_of, rotate_problems, sample_problems, world_of


def auc(folder: Path, seed: int, judges: int) -> float:
    """AUC of influence on `judges` validation samples for flipped against other rewards; 0.5 is chance.

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
    groups = world.rollouts(policy, problems, GROUP, "train", seed, 0)
    rewards = rewards_of("flipped", problems, groups, seed, 0)
    given = samples_of(policy, problems, groups, rewards)
    samples, shares = [successes(s) for s in given], [abs(s.advantage) for s in given]
    validation = validation_of(world, policy, judges, seed, 0)
    scorer = scorer_for(policy, [*samples, *validation], 1.0, world.params.grpo.micro_batch_tokens)
    found = compute_influences(scorer, samples, shares, validation, Variant("positive", judges, similarity="local"))
    flips = [is_flipped(problem, member, seed, 0) for problem in problems for member in range(GROUP)]
    rows = [(i, flip) for i, s, flip in zip(found, samples, flips, strict=True) if s.advantage]
    flipped, others = [i for i, flip in rows if flip], [i for i, flip in rows if not flip]
    return float(mannwhitneyu(others, flipped).statistic) / (len(others) * len(flipped))
