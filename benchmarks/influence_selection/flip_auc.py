"""AUC of influence as a detector of flipped rewards, at the first policy of a run of `benchmarks.selection`."""

from pathlib import Path

from benchmarks.influence_selection.conditions import FLIPPED, is_flipped
from benchmarks.influence_selection.first_round import first_round
from benchmarks.influence_selection.training_run import Job
from benchmarks.influence_selection.variants import Variant


def auc(folder: Path, seed: int, trusted: int) -> float:
    """AUC of influence on `trusted` completions for flipped against other rewards; 0.5 is chance.

    Measured at the workspace's first policy, among the samples of one round that would be trained on.
    """
    from scipy.stats import mannwhitneyu

    searched = first_round(Job(folder, seed, "flipped", "", Variant("positive", trusted, similarity="local"), 1))
    problems = {trajectory.problem_id: trajectory.problem for trajectory, _ in searched.rewarded}
    flipped, others = list[float](), list[float]()
    for line in searched.select().lines:
        if line.influence is not None and line.advantage > 0:
            flip = is_flipped(problems[line.problem_id], line.member, seed, 1, FLIPPED["flipped"])
            (flipped if flip else others).append(line.influence)
    return float(mannwhitneyu(others, flipped).statistic) / (len(others) * len(flipped))
