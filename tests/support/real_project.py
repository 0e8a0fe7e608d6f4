"""A project with real stages, a real tiny policy and the real sandbox, before its first search: stages of a second."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from flows.stages.sources import write as write_sources
from tasks.artifacts import write_jsonl
from tasks.layout import Layout
from tasks.model.policy import Policy, save_policy
from tasks.programs.contract import HEADER, prompt_of
from tasks.records.problems import Problem, Sibling
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY
from tests.support.writers import train_writer

CODES = [HEADER + f"    a = n[0] {sign} n[1]\n    return a\n" for sign in "+*-"]
TRAIN = [
    Problem(
        problem_id=f"p{n}",
        question=f"{n + 2} pens and 3 cups?",
        answer=n + 5,
        source="test",
        operations=1 + n // 4,
        siblings=[Sibling(question=f"{n + 2} pens and 7 cups?", answer=n + 9)],
    )
    for n in range(7)
]
HELD_OUT = [problem.model_copy(update={"problem_id": f"held-out-{problem.problem_id}"}) for problem in TRAIN[:2]]
KNOBS = ["shard_size=3", "search.samples=3", "search.simulations=16", "search.temperature=1.0"]
KNOBS += ["policy.max_new_tokens=48", "sandbox.allow_weak=true", "influence.n=1"]
KNOBS += ["influence.selection=positive"]


def adder(problems: Sequence[Problem]) -> Policy:
    """A policy that adds, multiplies and subtracts the quantities of these problems at random."""
    corpus = [prompt_of(p.question, "scratch") for p in problems] + CODES
    return train_writer(corpus, [problems[0].question], CODES)


def make(root: Path) -> Path:
    """Its policy is `adder`'s. The stages are those of the repository."""
    layout = Layout(root)
    save_policy(adder(TRAIN), layout.policy(0), parent=None, round=0)
    for split in ("train", "validation", "test"):
        write_jsonl(layout.problems(split), TRAIN if split == "train" else HELD_OUT)
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(REPOSITORY / name, root)
    for name in ("tasks", "flows"):
        (root / name).symlink_to(REPOSITORY / name)
    override(root / "params.yaml", KNOBS)
    write_sources(root)
    return root
