"""The project of the nights: the tiny project of the tests, with Graft's own stage `promote`.

Its stages hash what they read, so that a night takes seconds, and `results.py` writes what `promote` and the alerts
read. How many of the test problems a night's policy solves is in `skill.json`, beside the night's problems.
"""

import json
import shutil
from pathlib import Path
from random import Random

from benchmarks.nights import results
from tests.support import tiny_project
from tests.support.params_file import override

PROBLEMS = {"train": 110, "validation": 20, "test": 20}
"""Of a night."""

VOCABULARY = 100
"""Words of a night, the most frequent first. Each third night the source drops one, beginning with the rarest."""


def make_project(root: Path, store: str) -> None:
    """A new project in the folder `root`, with a file of problems in `data/`, recorded in MLflow's `store`."""
    tiny_project.make(root, rounds=1)
    shutil.copy(results.__file__, root / "tasks" / "tiny_results.py")
    shutil.copy(tiny_project.REPOSITORY / "tasks" / "promote" / "task.py", root / "tasks" / "promote")
    (root / "data").mkdir()
    override(
        root / "params.yaml",
        [
            *["problems.path=data", "problems.source=jsonl", "evaluation.ks=[1]"],
            *(f"problems.{split}={count}" for split, count in PROBLEMS.items()),
            *["machine.schedule.keep=7", f"machine.tracking.uri={store}"],
        ],
    )
    (root / "README.md").write_text("Nights\n")
    write_night(root, 0, results.FIRST)
    tiny_project.commit(root)


def write_night(root: Path, number: int, solved: int, err: bool = False, other: bool = False) -> None:
    """New problems, of which comes a policy that solves `solved` test problems.

    `err`: rewards err. `other`: the problems come from another source.
    """
    (root / "skill.json").write_text(json.dumps({"solved": solved, "err": err}))
    random = Random(number)
    words = [word(place + 10_000 * other) for place in range(VOCABULARY)]
    for change in range(number // 3):
        words[-1 - change] = word(VOCABULARY + change)
    weights = [1 / (place + 1) for place in range(VOCABULARY)]
    questions = (
        " ".join(random.choices(words, weights, k=random.randint(15, 30))) for _ in range(sum(PROBLEMS.values()))
    )
    lines = [{"question": f"{question}?", "answer": answer} for answer, question in enumerate(questions)]
    (root / "data" / "problems.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def word(number: int) -> str:
    """A word of its own for each number."""
    return "".join(Random(f"word {number}").choices("abcdefghijklmnopqrstuvwxyz", k=8))
