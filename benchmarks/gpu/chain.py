"""Phase chain/default and chain/smollm2: seconds of each stage of a run of one round, in one process.

`smollm2` learns with the GGUF file that `--model` names, on problems that it solves now and then.
"""

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from benchmarks.gpu.phase import Phase, synchronize
from benchmarks.support.small_model import EASY, LEARNING
from benchmarks.support.workspace import PROJECT
from tasks.errors import GraftError

COMMON = ("rounds=1", "sandbox.allow_weak=true")  # a machine without landlock runs it, too
ASSIGNMENTS = {
    "default": ("problems.test=60", "evaluation.samples=20"),
    "smollm2": (*EASY, *LEARNING, "policy.prompt.style=plain", "problems.train=32", "problems.validation=16"),
}
TINY = ("problems.train=12", "problems.validation=4", "problems.test=8", "problems.siblings=1", "bootstrap.epochs=1")
TINY += (
    "bootstrap.hidden=32",
    "bootstrap.layers=1",
    "search.simulations=4",
    "search.samples=4",
    "evaluation.samples=20",
)


def run(phase: Phase) -> None:
    from flows.stages import run as stages
    from flows.stages.dvc_yaml import stage_ids
    from tasks.params.file import override

    (name,) = phase.arguments
    base = [f"policy.base={Path(phase.model).resolve()}", "problems.test=48"] if name == "smollm2" else []
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for package in ("tasks", "flows", "examples"):
            shutil.copytree(PROJECT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("params.yaml", "dvc.yaml"):
            shutil.copy(PROJECT / file, root / file)
        override(root / "params.yaml", [*COMMON, *ASSIGNMENTS[name], *base, *(TINY if phase.is_tiny else [])])
        os.chdir(root)
        whole = 0.0
        for stage in ("sources", *stage_ids(1)):
            start = monotonic()
            try:
                stages.run(root, stage)
            except GraftError as error:
                phase.figure(**{f"{stage}_error": str(error)[:300]})
                if stage != "promote":
                    return
            synchronize()
            whole += monotonic() - start
            phase.figure(**{f"{stage}_s": monotonic() - start}, stages_s=whole)
        for moment in ("before", "after"):
            for file in sorted((root / "run" / "metrics").rglob(f"*{moment}*.json")):
                numbers = json.loads(file.read_text())
                phase.figure(
                    **{f"{moment}_{k}": x for k, x in numbers.items() if k in ("pass_at_1_greedy", "sampled_mean")}
                )
        os.chdir(PROJECT)
