"""What the stages of the nights' project write besides digests. It is a module of that project, not of this one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.artifacts import write_json, write_text
from tasks.layout import Layout

TEST = 40
"""Test problems, the same ones every night."""

FIRST = 10
"""Of these the first policy solves so many."""


def write_results(layout: Layout, stage: str, round: int | None) -> None:
    """Problems, answers of the audit and of the evaluation, as `skill.json` has them."""
    skill = json.loads((layout.root / "skill.json").read_text())
    match stage:
        case "problems":
            _write_problems(layout)
        case "select":
            assert round is not None
            answer = "err" if skill["err"] else "right"
            shares = {"wrong": 0.3 * skill["err"], "error": 0.02, "contradicted": 0.2, "expected": 0.1}
            write_json(layout.audit(round), {"answer": answer, **shares, "problems": 64, "needed": 0})
        case "evaluate":
            _write_outcomes(layout, *(("after", skill["solved"]) if round is None else ("before", FIRST)))


def _write_problems(layout: Layout) -> None:
    lines = [json.loads(line) for file in (layout.root / "data").glob("*.jsonl") for line in file.open()]
    train = [{"problem_id": f"n{place}", "source": "nights", **line} for place, line in enumerate(lines)]
    _write_lines(layout.problems("train"), train)
    common = {"source": "nights", "question": "the same every night"}
    _write_lines(layout.problems("test"), [{"problem_id": f"t{i}", "answer": i, **common} for i in range(TEST)])


def _write_outcomes(layout: Layout, name: str, solved: int) -> None:
    counts = {"template": None, "seen": None, "siblings_passed": None, "samples": 2, "invalid": 0, "timeouts": 0}
    lines = [
        {"problem_id": f"t{i}", "greedy": i < solved, "correct": 2 * (i < solved), "distinct": 1, **counts}
        for i in range(TEST)
    ]
    _write_lines(layout.evaluation(name) / "outcomes.jsonl", lines)
    levels = dict.fromkeys(("pass_at_1_greedy", "sampled_mean", "pass_at_1"), solved / TEST)
    write_json(layout.metrics("evaluate", name), levels)


def _write_lines(file: Path, lines: Sequence[Mapping[str, object]]) -> None:
    write_text(file, "".join(json.dumps(line) + "\n" for line in lines))
