"""Graft installed elsewhere: the same bytes as in a clone, what an upgrade makes stale, other Pythons, and set-up.

    python -m benchmarks.anywhere                           # with the present Python
    python -m benchmarks.anywhere --environment .venv-3.13  # and with that of another environment of Graft, made by
                                                            # make setup VENV=.venv-3.13 PYTHON=python3.13
    python -m benchmarks.anywhere --setup                   # and `make setup` in a fresh clone, which downloads much

A small chain of one round runs in a clone and in a project of `graft new`, whose Graft is a wheel in an environment of
its own. `new_to_first_stage_seconds`: from the start of `graft new` to the end of the first stage of `graft retrain`.
The last line is one JSON object.
"""

import argparse
import json
import platform
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.support.installation import build_wheel, install, make_environment
from benchmarks.support.workspace import PROJECT, environment, graft, make_workspace
from flows.stages.dvc_yaml import MODULES, parse
from flows.stages.sources import sources_of
from tasks.errors import GraftError
from tests.support.params_file import override

SMALL = (
    *("rounds=1", "problems.train=8", "problems.validation=4", "problems.test=8", "search.simulations=8"),
    *("bootstrap.hidden=64", "bootstrap.layers=1", "bootstrap.epochs=1", 'machine.tracking.uri=""'),
)

EDITED = "tasks/reward/builtin_terms.py"
"""The module in which the upgrade differs."""


def outputs(root: Path) -> dict[str, str]:
    """Output → digest, of all stages of a project."""
    stages = parse(root / "dvc.lock")["stages"].values()
    return {out["path"]: out["md5"] for stage in stages for out in stage.get("outs", [])}


def run(root: Path, commands: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command of an environment, as in a shell in which that is activated. Raises GraftError where it fails."""
    shell = environment(root) | {"PATH": f"{commands}:/usr/local/bin:/usr/bin:/bin"}
    ended = subprocess.run(command, cwd=root, env=shell, capture_output=True, text=True)
    if ended.returncode:
        raise GraftError(f"{' '.join(command)}: {ended.stderr.strip()}")
    return ended


def install_from(source: Path, folder: Path, commands: Path) -> float:
    """Install a wheel of the source; returns its size in MB."""
    wheel = build_wheel(source, folder)
    install(wheel, commands)
    return wheel.stat().st_size / 1e6


def seconds_to_first_stage(root: Path, commands: Path) -> float:
    """Make the project `root`, and run its first stage."""
    started = time.perf_counter()
    run(root.parent, commands, str(commands / "graft"), "new", root.name)
    override(root / "params.yaml", SMALL)
    run(root, commands, str(commands / "graft"), "stage", "problems")
    return time.perf_counter() - started


def stale_stages(root: Path, commands: Path) -> set[str]:
    """The stages of which `graft status` says that a source of theirs changed."""
    lines = run(root, commands, str(commands / "graft"), "status").stdout.splitlines()
    return {line.partition("@")[0].split()[0] for line in lines if f"source {EDITED}: changed" in line}


def stages_with(source: Path) -> set[str]:
    """The stages that use the edited module."""
    return {stage for stage, module in MODULES.items() if EDITED in sources_of(source, module)}


def setup_seconds(folder: Path) -> float:
    """`make setup` in a fresh clone."""
    subprocess.run(["git", "clone", "-q", str(PROJECT), str(folder)], check=True)
    started = time.perf_counter()
    subprocess.run(["make", "-s", "setup"], cwd=folder, env=environment(folder), check=True)
    return time.perf_counter() - started


def python_of(environment: Path) -> str:
    """The version of an environment's Python."""
    command = [str(environment / "bin" / "python"), "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def measure(folder: Path, environments: list[Path], setup: bool) -> dict[str, object]:
    """All figures, with clones, projects and environments in `folder`."""
    clone = make_workspace(folder / "clone", SMALL)
    ended = graft(clone, "retrain")
    if ended.returncode:
        raise GraftError(f"graft retrain in a clone: {ended.stderr.strip()}")
    expected = outputs(clone)

    source, commands = make_workspace(folder / "source", []), make_environment(folder / "venv")
    (source / ".venv").unlink()
    figures: dict[str, object] = {"wheel_mb": install_from(source, folder / "first", commands)}
    project = folder / "ein Projekt ä"
    figures["new_to_first_stage_seconds"] = seconds_to_first_stage(project, commands)
    run(project, commands, str(commands / "graft"), "retrain")
    found = outputs(project)
    figures["new_project_bytes_equal"] = int(found == expected)

    with (source / EDITED).open("a", encoding="utf-8") as stream:
        stream.write("\n# an upgrade\n")
    install_from(source, folder / "second", commands)
    figures["upgrade_stale_exact"] = int(stale_stages(project, commands) == stages_with(source))

    pythons, equal = [platform.python_version()], []
    for other in environments:
        copy = make_workspace(folder / other.name, SMALL)
        (copy / ".venv").unlink()
        (copy / ".venv").symlink_to(other.resolve())
        run(copy, copy / ".venv" / "bin", ".venv/bin/python", "-m", "flows.cli.main", "retrain")
        pythons.append(python_of(other))
        equal.append(outputs(copy) == expected)
    figures["pythons"] = pythons
    if equal:
        figures["bytes_equal_across_pythons"] = int(all(equal))
    if setup:
        figures["setup_seconds"] = setup_seconds(folder / "fresh")
        shutil.rmtree(folder / "fresh")
    return figures


def main() -> None:
    """Print a table of the figures, then the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", nargs="*", type=Path, default=[], metavar="FOLDER", help="with other Pythons")
    parser.add_argument("--setup", action="store_true", help="time `make setup` too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graft-anywhere-") as name:
        figures = measure(Path(name), options.environment, options.setup)
    table = Table("figure", "value", title="Graft installed elsewhere")
    for figure, value in figures.items():
        table.add_row(figure, f"{value:.2f}" if isinstance(value, float) else str(value))
    Console().print(table)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
