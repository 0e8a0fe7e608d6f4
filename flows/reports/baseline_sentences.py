"""Two lines about a run: was it worth a night, measured against what there is without training.

From the metrics of the stages `baselines` and `evaluate`; none of a run whose metrics lack one of the numbers.
"""

from collections.abc import Iterator, Mapping

from tasks.statistics.learning_curves import ks_of


def baseline_sentences(metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The lines. `metrics`: stage id → its metrics."""
    numbers, after = metrics.get("baselines", {}), metrics.get("evaluate@after", {})
    tests, ks = after.get("problems"), ks_of(after)
    try:
        return [*_stored(numbers, after, ks[-1]), *_first_policy(numbers, after)] if tests and ks else []
    except KeyError:
        return []


def _stored(numbers: Mapping[str, float], after: Mapping[str, float], k: int) -> Iterator[str]:
    if "workflows" in numbers:
        yield (
            f"{numbers['workflows']:.0f} stored workflows, the same ones for every test problem: one of them solves "
            f"{_level(numbers, 'workflows_solve')}, the first alone {_level(numbers, 'first_workflow_solves')}; the "
            f"trained policy solves {_level(after, f'pass_at_{k}')} in {k} tries, {_level(after, 'pass_at_1_greedy')} "
            "in one."
        )


def _first_policy(numbers: Mapping[str, float], after: Mapping[str, float]) -> Iterator[str]:
    if "samples" in numbers:
        spent, samples = numbers["spent"] // after["problems"], numbers["samples"]
        budget = "as many as training spent" if samples >= spent else f"training spent {spent:,.0f}"
        yield (
            f"The first policy with {samples:,.0f} samples of each test problem ({budget}): one of them is right for "
            f"{_level(numbers, 'samples_solve')}, if a key picks it; their majority for "
            f"{_level(numbers, 'majority_solves')}, without a key. The trained policy leads that by "
            f"{_level(numbers, 'lead_over_majority', '+')} with one sample."
        )


def _level(numbers: Mapping[str, float], name: str, sign: str = "") -> str:
    """`0.395 (0.33 … 0.47)`; with its interval."""
    low, high = numbers[f"{name}_low"], numbers[f"{name}_high"]
    return f"{numbers[name]:{sign}.3f} ({low:{sign}.2f} … {high:{sign}.2f})"
