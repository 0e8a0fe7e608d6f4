"""Inputs that are wrong in ways that only search, evaluation or a second run would meet, if nobody looked first."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.support.workspace import make_workspace

QUESTIONS = 12
LONG = "one two three " * 3000
"""More tokens than any model here holds."""
SPLITS = (
    "problems.source=jsonl",
    "problems.path=own.jsonl",
    "problems.train=4",
    "problems.validation=4",
    "problems.test=4",
    "influence.n=4",
)


def _question(root: Path) -> None:
    """Long is the question of a line that may be in any split."""
    lines = [{"question": f"{n} and {n}?", "answer": str(2 * n)} for n in range(QUESTIONS)]
    lines[7]["question"] = LONG
    (root / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _question_for_base(root: Path) -> None:
    from tests.support.broken_models import save_model

    save_model(root / "model")
    _question(root)


def _term(source: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        (root / "terms.py").write_text(source)

    return write


def _question_marks(root: Path) -> None:
    file = root / "params.yaml"
    wrong = r"^(seed|  train|  rank|  beta|  group_size): .*"
    file.write_text(re.sub(wrong, r"\1: ???", file.read_text(), flags=re.MULTILINE))


INPUTS: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "a question longer than a base holds": (_question_for_base, (*SPLITS, "policy.base=model")),
    "a question longer than a policy from scratch holds": (_question, SPLITS),
    "a reward term that is a number": (_term("f = 3\n"), ("rewards.own=[{name: mine, term: 'terms:f', weight: 1.0}]",)),
    "a reward term of two arguments": (
        _term("def f(problem, text): return 0.0\n"),
        ("rewards.own=[{name: mine, term: 'terms:f', weight: 1.0}]",),
    ),
    "a reward term that is not there": (
        _term("g = len\n"),
        ("rewards.own=[{name: mine, term: 'terms:f', weight: 1.0}]",),
    ),
    "??? in five params": (_question_marks, ()),
}
"""Name → a function that writes files into a workspace, and params."""


def make_input(root: Path, name: str) -> Path:
    """A new workspace with this input."""
    write, assignments = INPUTS[name]
    make_workspace(root, assignments)
    write(root)
    return root
