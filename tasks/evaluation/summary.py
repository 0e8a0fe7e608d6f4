"""From attempts to outcomes to the numbers of an evaluation."""

from collections.abc import Sequence

from tasks.evaluation.pass_at_k import pass_at_k
from tasks.intervals import Estimate, mean_interval
from tasks.params import Evaluation
from tasks.records import Attempt, Outcome, Problem
from tasks.seeds import derive_seed


def outcome_of(problem: Problem, attempts: Sequence[Attempt]) -> Outcome:
    """How a problem went; exactly one of its attempts is the greedy one."""
    (greedy,) = [a for a in attempts if a.greedy]
    return Outcome(
        problem_id=problem.problem_id,
        template=problem.template,
        seen=problem.seen,
        greedy=greedy.right,
        siblings_passed=greedy.siblings_passed,
        samples=sum(a.samples for a in attempts),
        correct=sum(a.samples for a in attempts if a.right),
        invalid=sum(a.samples for a in attempts if a.result.status not in ("ok", "timeout")),
        timeouts=sum(a.samples for a in attempts if a.result.status == "timeout"),
        distinct=sum(a.samples > 0 for a in attempts),
    )


def measured(outcomes: Sequence[Outcome], ks: Sequence[int]) -> dict[str, list[float]]:
    """Each measure by its name in the metrics file, with its value for each problem that it is known of.

    `pass_at_1_greedy` is the accuracy at temperature 0; `pass_at_1` is the unbiased estimate from the samples, c/n.
    What is known of no problem (seen templates, siblings) has an empty list.
    """
    return {
        "pass_at_1_greedy": [float(o.greedy) for o in outcomes],
        "pass_at_1_greedy_seen": [float(o.greedy) for o in outcomes if o.seen is True],
        "pass_at_1_greedy_unseen": [float(o.greedy) for o in outcomes if o.seen is False],
        "siblings_passed": [float(o.siblings_passed) for o in outcomes if o.siblings_passed is not None],
        **{f"pass_at_{k}": [pass_at_k(o.samples, o.correct, k) for o in outcomes] for k in ks},
    }


def summarise(outcomes: Sequence[Outcome], params: Evaluation, seed: int) -> dict[str, float]:
    """All numbers of an evaluation by the names that the metrics file gives them; what is not known has no name."""
    samples = sum(o.samples for o in outcomes)
    numbers: dict[str, float] = {
        "problems": len(outcomes),
        "sampled_mean": sum(o.correct for o in outcomes) / samples,
        "invalid": sum(o.invalid for o in outcomes) / samples,
        "timeouts": sum(o.timeouts for o in outcomes) / samples,
        "distinct": sum(o.distinct for o in outcomes) / len(outcomes),
    }
    for name, values in measured(outcomes, params.ks).items():
        if values:
            own_seed = derive_seed(seed, "interval", name)
            numbers |= _named(name, mean_interval(values, params.resamples, params.confidence, own_seed))
    return numbers


def _named(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
