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
from benchmarks.support.small_model import EASY, LEARNING
from benchmarks.support.workspace import PROJECT
from tasks.errors import GraftError
from tests.support.params_file import override

COMMON = ("rounds=1", "sandbox.allow_weak=true")  # a machine without landlock runs it, too
SMOLLM2 = (*EASY, *LEARNING, "policy.prompt.style=plain", "problems.train=32", "problems.validation=16")
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
