"""Digests of everything that Graft writes for fixed inputs, to compare before and after a change of its sources.

    python -m tests.support.golden > before.txt; …; python -m tests.support.golden | diff before.txt -

Runs the tiny project, then one small real chain, and prints a line for each file of `run/` and for each `--help`.
Left out: `run/sources/` and `dvc.lock`, which name the source files, and the page and the account, which hold times.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.support.workspace import graft, make_workspace
from tasks.artifacts import digest_path, digest_text
from tests.support import tiny_project

SMALL = [
    *["rounds=1", "problems.train=40", "problems.validation=12", "problems.test=8", "problems.dev=4"],
    *["problems.siblings=3", "problems.phrasings=3", "evaluation.every=1", "machine.tracking.uri="],
    *["bootstrap.hidden=96", "bootstrap.layers=2", "bootstrap.vocabulary=768", "bootstrap.epochs=14"],
    *["bootstrap.learning_rate=0.004"],
    *["search.samples=8", "search.simulations=12", "search.temperature=1.0"],
    *["rewards.correctness=1.0", "rewards.runs=0.5", "rewards.length=0.0"],  # runs: samples differ, so all is computed
    *["influence.validation=held_out", "influence.completions=6", "influence.selection=positive"],
    *["update.group_size=10", "update.prompts_per_step=8", "update.epochs=2", "update.learning_rate=0.006"],
    *["update.negative_weight=0.5", "update.beta=0.01"],
    *["evaluation.samples=4", "evaluation.ks=[1, 2]"],
]
UNLIKE = ("run/sources/", "run/page.html", "run/account.json")


def print_digests(title: str, root: Path) -> None:
    for path in sorted(p for p in (root / "run").rglob("*") if p.is_file()):
        name = path.relative_to(root).as_posix()
        if not name.startswith(UNLIKE):
            print(title, name, digest_path(path))


def print_help() -> None:
    """The digest of each command's `--help`, at a width of 120 columns."""
    shape = {**os.environ, "COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"}

    def text(*command: str) -> str:
        asked = [str(Path(sys.executable).with_name("graft")), *command, "--help"]
        return subprocess.run(asked, env=shape, capture_output=True, text=True, check=True).stdout

    main = text()
    print("help graft", digest_text(main))
    for command in re.findall(r"^  ([a-z]+)  ", main, re.MULTILINE):
        print("help", command, digest_text(text(command)))


def main() -> None:
    with TemporaryDirectory() as folder:
        os.environ["DVC_SITE_CACHE_DIR"] = f"{folder}/site"
        tiny = tiny_project.make(Path(folder) / "tiny", rounds=1)
        tiny_project.graft(tiny, "retrain")
        print_digests("tiny", tiny)
        real = make_workspace(Path(folder) / "real", SMALL)
        ended = graft(real, "retrain")
        if ended.returncode:
            sys.exit(ended.stdout + ended.stderr)
        print_digests("real", real)
    print_help()


if __name__ == "__main__":
    main()
