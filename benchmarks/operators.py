"""Operators that a small chat model serves: how many problems the simplest workflow of each operator solves.

    python -m benchmarks.operators

The first policy of the preset `smollm2` serves itself, as `operators.backend=policy` lets it; a workflow is asked each
test problem once, without its siblings. `error`: the program ended with one, as where a reply cannot be read. The last
line of standard output is one JSON object. Needs `make smollm2`.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.support.workspace import graft, make_workspace
from flows.cli.presets import preset
from flows.process.exit_codes import exit_code
from tasks.artifacts import read_jsonl
from tasks.environments.lookup import environment_in
from tasks.environments.runner import make_runner, program_of
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.model.rollouts.operator_model import operator_model
from tasks.params.file import load_params
from tasks.records import Problem

if TYPE_CHECKING:
    from rich.table import Table

WORKFLOWS = {
    "answer": "return answer(problem)",
    "write_code": "return run(write_code(problem), problem)",
    "ensemble": "return ensemble([answer(problem), answer(problem), answer(problem)], problem)",
    "review, revise": "first = answer(problem)\n    return revise(problem, first, review(problem, first))",
    "check": "first = answer(problem)\n    return first if check(problem, first) else answer(problem)",
}
"""Operators → the body of a workflow that calls them."""

Figures = dict[str, float]


def measure(root: Path, problems: int) -> dict[str, Figures]:
    """The figures of each workflow. Raises GraftError where a stage before fails."""
    sizes = [f"problems.test={problems}", "problems.train=32", "operators.backend=policy", "operators.max_tokens=160"]
    make_workspace(root, [*preset("smollm2"), *sizes])
    ended = graft(root, "stage", "problems", "coldstart", "bootstrap")
    if ended.returncode:
        raise GraftError(f"bootstrap: {ended.stderr.strip()[-300:]}")
    layout, params = Layout(root), load_params(root / "params.yaml")
    asked, policy = read_jsonl(layout.problems("test"), Problem), load_policy(layout.policy(0))
    environment, figures = environment_in(root, params), dict[str, Figures]()
    for name, body in WORKFLOWS.items():
        served, began = operator_model(policy, params.operators, layout), time.process_time()
        assert served is not None
        with make_runner(environment, params.sandbox, served) as runner:
            code = f"def solve(problem):\n    {body}\n"
            ended_with = runner.run([program_of(code, problem, siblings=False) for problem in asked])
        right = [environment.is_right(problem, own[0]) for problem, own in zip(asked, ended_with, strict=True)]
        figures[name] = {
            "right": sum(right) / len(asked),
            "error": sum(own[0].status != "ok" for own in ended_with) / len(asked),
            "cpu_seconds": (time.process_time() - began) / len(asked),
        }
    return figures


def table(figures: dict[str, Figures], problems: int) -> "Table":
    """A row for each workflow."""
    from rich.table import Table

    made = Table(title=f"{problems} test problems of one operation, asked once", title_justify="left")
    for title in ("operators", "right", "error", "CPU s a problem"):
        made.add_column(title, justify="left" if title == "operators" else "right")
    for name, own in figures.items():
        made.add_row(name, f"{own['right']:.3f}", f"{own['error']:.3f}", f"{own['cpu_seconds']:.1f}")
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.operators", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--problems", type=int, default=48)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="graft-operators-") as temporary:
        figures = measure(Path(temporary) / "project", options.problems)
    Console(width=None if sys.stdout.isatty() else 100).print(table(figures, options.problems))
    flat = {
        f"{name.replace(', ', '_')}_{key}": round(value, 4)
        for name, own in figures.items()
        for key, value in own.items()
    }
    print(json.dumps(flat))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
