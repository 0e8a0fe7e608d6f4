"""Inputs that a run has to refuse before it computes anything: those that it refuses later, or takes.

python -m benchmarks.faults.late
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.late_inputs import INPUTS, make_input
from tests.support.workspace import graft


def measure() -> dict[str, float]:
    """`late_errors`: of the inputs, those without one line and exit code 2, or with a result in `run/` before it."""
    late = []
    for name in INPUTS:
        with TemporaryDirectory() as folder:
            root = make_input(Path(folder, "project"), name)
            ended = graft(root, "retrain")
            computed = sorted(path.name for path in root.glob("run/*"))
            if ended.returncode != 2 or computed or ended.stderr.count("\n") != 1:
                late.append(f"{name}: exit code {ended.returncode}, {computed}, {ended.stderr}")
    for line in late:
        print(line)
    return {"late_inputs": float(len(INPUTS)), "late_errors": float(len(late))}


if __name__ == "__main__":
    print(json.dumps(measure()))
