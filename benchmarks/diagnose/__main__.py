"""Check of `graft diagnose`: red flags of healthy runs, and of runs with a planted fault.

    python -m benchmarks.diagnose --seeds 0 1 2 --folder /tmp/diagnose

The rounds of the default are computed by the stages themselves, about a minute for each seed; they stay in the folder,
and are not computed again. Each round's policy is diagnosed; then, from the policy of round 2, with each fault. The
last line of the output is a JSON object with the counts.
"""

import argparse
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from benchmarks.support.short_runs import make_start, params_of, start_folder
from flows.diagnosis.diagnose import diagnose
from flows.process.settings import set_environment
from flows.stages.dvc_yaml import MODULES
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.objective.advantages import advantages_of
from tasks.params.fields import Baseline

ROUND = ("search", "collect", "reward", "select", "update")
FAULTY = 2  # the round whose policy takes the step with a fault

REWARDS = """def constant(problem, text, results):
    return 0.5


def broken(problem, text, results):
    return 1 / 0
"""

OWN = "rewards.own=[{name: planted, term: 'planted:%s', weight: 1.0}]"


class Fault(NamedTuple):
    """A planted fault and the red flags that are right answers to it."""

    flags: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    patched: Callable[[], AbstractContextManager[object]] = nullcontext


def negated(rule: Baseline, groups: list[list[float | None]]) -> list[list[float]]:
    """Advantages of the wrong sign."""
    return [[-advantage for advantage in own] for own in advantages_of(rule, groups)]


FAULTS = {
    "learning rate 0.1": Fault(("performance down",), ("update.learning_rate=0.1",)),
    "learning rate 1e-9": Fault(("no learning",), ("update.learning_rate=1e-9",)),
    "temperature 0.01": Fault(("identical completions",), ("search.temperature=0.01",)),
    "beta 10": Fault(("extreme KL share", "wrong direction"), ("update.beta=10",)),
    "constant reward": Fault(("zero gradients",), ("rewards.correctness=0", OWN % "constant")),
    "reward that raises": Fault(("reward errors",), (OWN % "broken",)),
    "wrong sign": Fault(("wrong direction",), (), lambda: patch("tasks.objective.groups.advantages_of", negated)),
}


def compute_rounds(root: Path, seed: int) -> Path:
    """The folder with all rounds of the default with a seed; those that are there are not computed again."""
    params = params_of([f"seed={seed}"])
    folder = start_folder(root, [f"seed={seed}"])
    make_start(folder, params)
    for round in range(1, params.rounds.last + 1):
        if not Layout(folder).steps(round).exists():
            for stage in ROUND:
                import_module(MODULES[stage]).run(Layout(folder), params, round)
    (folder / "planted.py").write_text(REWARDS)
    return folder


def red_flags(folder: Path, seed: int, round: int, fault: Fault) -> list[str]:
    """The red flags of one diagnosis; a reward that always fails ends it with an error that names the exception."""
    try:
        with fault.patched():
            found = diagnose(Layout(folder), params_of([f"seed={seed}", *fault.assignments]), None, round)
    except GraftError as error:
        return ["reward errors"] if "ZeroDivisionError: division by zero (planted.py:6)" in str(error) else [str(error)]
    return [verdict.flag for verdict in found.verdicts if verdict.flag]


def show(seed: int, case: str, flags: list[str]) -> None:
    """A line of the table: seed, case and red flags."""
    print(f"{seed:4}  {case:20}  {', '.join(flags)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(10), help="of runs of the default")
    parser.add_argument("--folder", type=Path, required=True, help="of the computed rounds")
    asked = parser.parse_args()
    set_environment()
    healthy = alarms = planted = found = 0
    for seed in asked.seeds:
        folder = compute_rounds(asked.folder, seed)
        for round in range(params_of([]).rounds.last + 1):
            flags = red_flags(folder, seed, round, Fault(()))
            healthy, alarms = healthy + 1, alarms + bool(flags)
            show(seed, f"round {round}", flags)
        for name, fault in FAULTS.items():
            flags = red_flags(folder, seed, FAULTY, fault)
            planted, found = planted + 1, found + bool({*flags} & {*fault.flags})
            show(seed, name, flags)
    print(json.dumps({"healthy": healthy, "false_alarms": alarms, "planted": planted, "planted_found": found}))


if __name__ == "__main__":
    main()
