"""Phase chain/default and chain/smollm2: seconds of each stage of a run of one round, all in this process.

`smollm2` learns with the GGUF file that `--model` names, on problems that it solves now and then.
"""

import json
import os
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gpu.phase import Phase, cost_of
from tasks.errors import GraftError
from tests.support.params_file import override
from tests.support.workspace import PROJECT

COMMON = ("rounds=1", "sandbox.allow_weak=true")  # a machine without landlock runs it, too
SMOLLM2 = (
    *("problems.train=32", "problems.validation=16", "policy.prompt.style=plain", "policy.max_new_tokens=48"),
    *("environment.stories=fixed", "environment.operations=1", "environment.phrasings=1"),
    *("environment.unseen_template_share=0.5", "influence.selection=none"),
    *("search.samples=12", "search.simulations=12", "search.temperature=0.9"),
    *("update.learning_rate=2e-4", "update.warmup_steps=2", "update.epochs=2", "update.negative_weight=1.0"),
    *("update.beta=0.0", "update.micro_batch_tokens=1024"),
)
TINY = (
    *("problems.train=12", "problems.validation=4", "problems.test=8", "problems.siblings=1", "bootstrap.epochs=1"),
    *("bootstrap.hidden=32", "bootstrap.layers=1", "search.simulations=4", "search.samples=4"),
)


def run(phase: Phase) -> None:
    from flows.stages import run as stages
    from flows.stages.dvc_yaml import stage_ids

    more = [*SMOLLM2, f"policy.base={Path(phase.model).resolve()}"] if phase.arguments == ["smollm2"] else []
    more += TINY if phase.is_tiny else ()
    with TemporaryDirectory() as folder:
        root, whole = Path(folder), 0.0
        for package in ("tasks", "flows"):
            shutil.copytree(PROJECT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("params.yaml", "dvc.yaml"):
            shutil.copy(PROJECT / name, root / name)
        override(root / "params.yaml", [*COMMON, "problems.test=60", *more])
        os.chdir(root)
        for stage in ("sources", *stage_ids(1)):
            try:
                seconds = cost_of(partial(stages.run, root, stage))[0]
            except GraftError as error:
                phase.figure(**{f"{stage}_error": str(error)[:300]})
                break
            whole += seconds
            phase.figure(**{f"{stage}_s": seconds, "stages_s": whole})
        for file in sorted((root / "run" / "metrics").rglob("*.json")):
            if "pass_at_1_greedy" in (numbers := json.loads(file.read_text())):
                phase.figure(f"{file.stem}_", pass_at_1_greedy=numbers["pass_at_1_greedy"])
        os.chdir(PROJECT)
