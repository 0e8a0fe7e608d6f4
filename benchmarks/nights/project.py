"""The project of the nights: the tiny project of the tests, with Graft's own stage `promote`.

Its stages hash what they read, so that a night takes seconds. How many of the TEST problems its policy solves is in
`skill.json`, which the benchmark writes along with new problems.
"""

import json
import shutil
from pathlib import Path

from tasks.params.file import override
from tests.support import tiny_project

TEST = 40
"""Test problems, the same ones every night."""

FIRST = 10
"""Of these the first policy solves so many."""

SKILL = '''

def skill(layout, stage, round):
    """What `evaluate` and `select` of the nights write besides their digests."""
    world = json.loads((layout.root / "skill.json").read_text())
    if stage == "problems":
        for split, question in (("train", digest_path(layout.root / "data")), ("test", "the same every night")):
            common = {"source": "nights", "question": question}
            lines = [{"problem_id": f"t{i}", "answer": i, **common} for i in range(TEST)]
            write_text(layout.problems(split), "".join(json.dumps(line) + "\\n" for line in lines))
    if stage == "select":
        answer = "err" if world["err"] else "right"
        share = {"wrong": 0.3 * world["err"], "error": 0.02, "contradicted": 0.2, "expected": 0.1}
        write_json(layout.audit(round), {"answer": answer, **share, "problems": 64, "needed": 0})
    if stage == "evaluate":
        name, solved = ("after", world["solved"]) if round is None else ("before", FIRST)
        counts = {"template": None, "seen": None, "siblings_passed": None, "samples": 2, "invalid": 0, "timeouts": 0}
        lines = [
            {"problem_id": f"t{i}", "greedy": i < solved, "correct": 2 * (i < solved), "distinct": 1, **counts}
            for i in range(TEST)
        ]
        write_text(layout.evaluation(name) / "outcomes.jsonl", "".join(json.dumps(line) + "\\n" for line in lines))
        share = solved / TEST
        levels = dict.fromkeys(("pass_at_1_greedy", "sampled_mean", "pass_at_1"), share)
        write_json(layout.metrics("evaluate", name), levels)
'''


def make_project(root: Path, store: str) -> None:
    """A new project in the folder `root`, with files of problems in `data/`, recorded in MLflow's `store`."""
    tiny_project.make(root, rounds=1)
    tiny = root / "tasks" / "tiny.py"
    text = tiny.read_text().replace("\n\ndef promote(", f"{SKILL}\n\ndef promote(")
    text = text.replace("HEADLINE = ", f"TEST, FIRST = {TEST}, {FIRST}\nHEADLINE = ")
    ends = '    if stage == "promote":\n        shares'
    assert ends in text
    tiny.write_text(text.replace(ends, f"    skill(layout, stage, round)\n{ends}"))
    shutil.copy(tiny_project.REPOSITORY / "tasks" / "promote" / "task.py", root / "tasks" / "promote")
    (root / "data").mkdir()
    override(
        root / "params.yaml",
        [
            *["problems.path=data", "problems.source=jsonl", "machine.contract.action=none", "evaluation.ks=[1]"],
            *["machine.schedule.keep=7", f"machine.tracking.uri={store}"],
        ],
    )
    (root / "README.md").write_text("Nights\n")
    write_night(root, 0, FIRST, False)
    tiny_project.commit(root)


def write_night(root: Path, number: int, solved: int, err: bool) -> None:
    """New problems, and what comes of them: `solved` of TEST, `err`: rewards err."""
    (root / "skill.json").write_text(json.dumps({"solved": solved, "err": err}))
    lines = [{"question": f"{number} and {i}?", "answer": number + i} for i in range(10 + number)]  # drifts
    (root / "data" / f"{number:03}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
