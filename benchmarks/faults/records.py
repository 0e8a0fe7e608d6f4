"""Hostile params, records, reward functions and runs of other people, given to the commands as a user gives them.

    python -m benchmarks.faults.records

Each case is one call of `graft`, or of the stage `reward`, in a process of its own. `hangs`: calls that take longer
than LIMIT seconds of processor time, or ten times that by the clock; `faults_in_graft`: calls that end with a
traceback, with "a fault in Graft", with an exit code other than 0 and 2, or that print a control character.
"""

import json
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tasks.artifacts import write_jsonl
from tasks.layout import Layout
from tasks.records.programs import Result
from tests.support import finished_run, tiny_project
from tests.support.broken_files import broken
from tests.support.groups import make_group
from tests.support.hostile_values import CONTROLS, hostile_record
from tests.support.params_file import override

LIMIT = 10
"""Seconds of processor time of a call."""

RUNS, PARAMS = 10, 16
"""Hostile runs and broken params files; those of more draws are in the nightly tests."""

RETURNS = (
    *("None", "float('nan')", "float('inf')", "[0.5]", "'0.5'", "1j", "object()", "10**400", "1e300"),
    *("decimal.Decimal('0.5')", "fractions.Fraction(1, 2)", "numpy.array(0.5)", "numpy.float32(0.5)", "numpy.ones(2)"),
    *("os._exit(0)", "sys.exit()", "1 / 0", "os.kill(os.getpid(), 9)"),
)
"""What a reward function returns, or does, for every completion."""

REWARD = """
import sys
from pathlib import Path
from flows.process.exit_codes import exit_code
from flows.stages.dvc_yaml import declared_params
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.reward.task import run

def command():
    root = Path(sys.argv[1])
    run(Layout(root), restrict(load_params(root / "params.yaml"), declared_params(Path.cwd(), "reward")), 1)

sys.exit(exit_code(command, debug=False))
"""
"""The stage `reward` of a folder, with the sources of the current one."""


class Call(NamedTuple):
    """A call of a command."""

    name: str
    folder: Path
    arguments: list[str]  # of Python


def measure() -> dict[str, float]:
    """The number of calls, of those that hang, and of those that are a fault of Graft."""
    counts = {"calls": 0.0, "hangs": 0.0, "faults_in_graft": 0.0}
    with TemporaryDirectory() as folder:
        for call in (*_params(Path(folder)), *_runs(Path(folder)), *_rewards(Path(folder))):
            outcome = _outcome(call)
            counts["calls"] += 1
            if outcome:
                counts[outcome] += 1
                print(f"{outcome}: {call.name}", file=sys.stderr)
    return counts


def _outcome(call: Call) -> str | None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))

    try:
        done = subprocess.run(
            [sys.executable, *call.arguments],
            cwd=call.folder,
            env=tiny_project.environment(),
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=10 * LIMIT,
            preexec_fn=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode in (-9, -24):  # SIGKILL, SIGXCPU: of the limit
        return "hangs"
    printed = done.stdout + done.stderr
    fault = "Traceback" in printed or "a fault in Graft" in printed or set(CONTROLS) & set(printed)
    return "faults_in_graft" if fault or done.returncode not in (0, 2) else None


def _params(folder: Path) -> Iterator[Call]:
    """`graft status` in a project with a hostile params.yaml."""
    root, chance = tiny_project.make(folder / "project"), random.Random(0)
    valid = (root / "params.yaml").read_bytes()
    for number in range(PARAMS):
        (root / "params.yaml").write_bytes(broken(valid, chance))
        yield Call(f"params {number}", root, ["-m", "flows.cli.main", "status"])
    (root / "params.yaml").write_bytes(valid)
    for assignment in ("rounds=1000000000", "rounds=100000", "problems.train=1000000000000", "seed=1e999"):
        yield Call(f"-S {assignment}", root, ["-m", "flows.cli.main", "stage", "problems", "-S", assignment])


def _runs(folder: Path) -> Iterator[Call]:
    """`graft compare` of a run with a hostile one, and the page of both."""
    from flows.reports.run_record import read_run_record

    record, chance = read_run_record(finished_run.write(folder / "run")).model_dump_json(), random.Random(1)
    (folder / "a.json").write_text(record)
    arguments = ["-m", "flows.cli.main", "compare", str(folder / "a.json"), str(folder / "b.json")]
    for number in range(RUNS):
        (folder / "b.json").write_text(hostile_record(json.loads(record), chance))
        yield Call(f"run {number}", tiny_project.REPOSITORY, [*arguments, "--html", str(folder / "page.html")])


def _rewards(folder: Path) -> Iterator[Call]:
    """The stage `reward` with a function that returns the same for every completion, whatever share may fail."""
    root = folder / "rewards"
    texts = [f"return {number}" for number in range(16)]
    groups = [make_group(texts, [Result(status="ok", value=5)] * len(texts)) for _ in range(3)]
    write_jsonl(Layout(root).trajectories(1), groups)
    for value in RETURNS:
        source = "import decimal, fractions, os, sys\nimport numpy\n\ndef term(problem, text, results):\n"
        (root / "own.py").write_text(f"{source}    return {value}\n")
        (root / "params.yaml").write_text((tiny_project.REPOSITORY / "params.yaml").read_text())
        own = 'rewards.own=[{name: told, term: "own:term", weight: 1.0}]'
        override(root / "params.yaml", [own])
        yield Call(f"a reward of {value}", tiny_project.REPOSITORY, ["-c", REWARD, str(root)])


if __name__ == "__main__":
    print(json.dumps(measure()))
