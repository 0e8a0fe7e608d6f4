"""A project with real stages, a real tiny policy and the real sandbox, before its first search: stages of a second."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from flows.stages.sources import write as write_sources
from tasks.artifacts import write_jsonl
from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.supervised import TrainingExample, train_supervised
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.layout import Layout
from tasks.model.policy import Policy, attach_adapter, encode_completion, encode_prompt, save_policy
from tasks.params.file import override
from tasks.programs.contract import HEADER, prompt_of
from tasks.records import Problem, Sibling

REPOSITORY = Path(__file__).parents[2]
CODES = [HEADER + f"    a = n[0] {sign} n[1]\n    return a\n" for sign in "+*-"]
TRAIN = [
    Problem(
        problem_id=f"p{n}",
        question=f"{n + 2} pens and 3 cups?",
        answer=n + 5,
        source="test",
        siblings=[Sibling(question=f"{n + 2} pens and 7 cups?", answer=n + 9)],
    )
    for n in range(7)
]
HELD_OUT = [problem.model_copy(update={"problem_id": f"held-out-{problem.problem_id}"}) for problem in TRAIN[:2]]
KNOBS = ["shard_size=3", "search.samples=3", "search.simulations=16", "search.temperature=1.0"]
KNOBS += ["policy.max_new_tokens=48", "sandbox.allow_weak=true", "influence.n=1"]
KNOBS += ["influence.selection=positive"]


def train_writer(problems: Sequence[Problem]) -> Policy:
    """A policy that adds, multiplies and subtracts the quantities of these problems at random."""
    tokenizer = train_tokenizer([prompt_of(p.question, "scratch") for p in problems] + CODES, 300)
    policy = Policy(build_scratch_model(tokenizer, hidden=32, layers=1, seed=0), tokenizer, "", "scratch")
    prompt = encode_prompt(policy, prompt_of(problems[0].question, "scratch"))
    rows = [TrainingExample(prompt, encode_completion(policy, code)) for code in CODES]
    train_supervised(policy.model, rows, epochs=60, learning_rate=0.02, batch=3, pad=tokenizer.pad_token_id, seed=0)
    policy.model = attach_adapter(policy.model, rank=2, alpha=2.0, seed=0)
    return policy


def make(root: Path) -> Path:
    """Its policy is `train_writer`'s. The stages are those of the repository."""
    layout = Layout(root)
    save_policy(train_writer(TRAIN), layout.policy(0), parent=None, round=0)
    write_jsonl(layout.searches(0), [])
    for split in ("train", "validation", "test"):
        write_jsonl(layout.problems(split), TRAIN if split == "train" else HELD_OUT)
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(REPOSITORY / name, root)
    for name in ("tasks", "flows"):
        (root / name).symlink_to(REPOSITORY / name)
    override(root / "params.yaml", KNOBS)
    write_sources(root)
    return root
