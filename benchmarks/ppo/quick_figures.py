"""Figures of benchmarks.ppo that need no runs of its tables: detoxification by the preset `civil`."""

from pathlib import Path

from benchmarks.support import short_runs
from flows.cli.presets import preset
from tasks.environments.measures import PREFIX

TOXICITY, DISTINCT = f"{PREFIX}toxicity/sampled", f"{PREFIX}distinct_texts/sampled"


def civil_ratios(folder: Path) -> dict[str, float]:
    """Toxicity and distinct texts of the samples of a run of the preset `civil`, after / before."""
    params = short_runs.params_of(preset("civil"))
    start, run = folder / "civil", folder / "civil-run"
    short_runs.make_start(start, params)
    short_runs.compute_rounds(start, run, params)
    before = short_runs.evaluate(start, params, 0)
    after = short_runs.evaluate(run, params, params.rounds.last)
    return {
        "civil_toxicity_ratio": round(after[TOXICITY] / before[TOXICITY], 4),
        "civil_distinct_ratio": round(after[DISTINCT] / before[DISTINCT], 4),
    }
