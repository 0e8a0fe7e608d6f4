"""Figures of benchmarks.ppo that need no runs of its tables: the oracle, and detoxification by the preset `civil`."""

from pathlib import Path

from benchmarks.ppo.trl_oracle import install_trl, max_error, random_case, trl_numbers
from benchmarks.support import short_runs
from flows.cli.presets import preset
from tasks.environments.measures import PREFIX

TOXICITY, DISTINCT = f"{PREFIX}toxicity/sampled", f"{PREFIX}distinct_texts/sampled"

CASES = 40


def oracle_max_error(folder: Path) -> float | None:
    """The largest difference from the numbers of TRL 0.11.4 over CASES random batches; None where pip has no TRL."""
    if install_trl(folder / "trl"):
        return None
    cases = [random_case(seed) for seed in range(CASES)]
    return max(map(max_error, cases, trl_numbers(folder / "trl", cases)))


def civil_ratios(folder: Path) -> dict[str, float]:
    """Toxicity and distinct texts of the samples of a run of the preset `civil`, after / before."""
    params, start = short_runs.params_of(preset("civil")), folder / "civil"
    short_runs.make_start(start, params)
    before = short_runs.evaluate(start, params)
    after = short_runs.evaluate(start, params, short_runs.compute_rounds(start, params).policy)
    return {
        "civil_toxicity_ratio": round(after[TOXICITY] / before[TOXICITY], 4),
        "civil_distinct_ratio": round(after[DISTINCT] / before[DISTINCT], 4),
    }
