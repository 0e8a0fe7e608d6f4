"""Two lines about a run: was it worth a night, measured against what there is without training."""

from collections.abc import Mapping


def baseline_sentences(metrics: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The lines, by stage id → its metrics; none of a run that lacks one of the numbers."""
    numbers, after = metrics.get("baselines", {}), metrics.get("evaluate@after", {})
    lines = list[str]()
    try:
        if "workflows" in numbers:
            tries = f"{numbers['tries']:.0f}"
            lines.append(
                f"{numbers['workflows']:.0f} stored workflows, the same ones for every test problem: one of them "
                f"solves {_level(numbers, 'workflows_solve')}, the first alone "
                f"{_level(numbers, 'first_workflow_solves')}; the trained policy solves "
                f"{_level(after, f'pass_at_{tries}')} in {tries} tries, {_level(after, 'pass_at_1_greedy')} in one."
            )
        if "samples" in numbers:
            spent, samples = numbers["spent"] // max(after["problems"], 1), numbers["samples"]
            budget = "as many as training spent" if samples >= spent else f"training spent {spent:,.0f}"
            lines.append(
                f"The first policy with {samples:,.0f} samples of each test problem ({budget}): one of them is right "
                f"for {_level(numbers, 'samples_solve')}, if a key picks it; their majority for "
                f"{_level(numbers, 'majority_solves')}, without a key. The trained policy leads that by "
                f"{_level(numbers, 'lead_over_majority', '+')} with one sample."
            )
    except KeyError:
        return []
    return lines


def _level(numbers: Mapping[str, float], name: str, sign: str = "") -> str:
    """`0.395 (0.33 … 0.47)`, with its interval."""
    return f"{numbers[name]:{sign}.3f} ({numbers[f'{name}_low']:{sign}.2f} … {numbers[f'{name}_high']:{sign}.2f})"
