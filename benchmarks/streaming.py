"""Peak memory of the stages collect and reward for up to a million problems.

    python -m benchmarks.streaming

A round's search is made up: problems, and for each two workflows with two completions each, in the tokens of a tiny
policy. Then the stages run as they are, each in its own process, which reports its peak and time. `whole` is the same
with all problems in one shard, as before there were shards, of `--whole` problems; what it needs grows with them. The
last line of standard output is one JSON object, of all problems: the highest peak of a stage, in MiB, and the seconds
of both.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from flows.process import settings
from flows.process.exit_codes import exit_code
from flows.stages.dvc_yaml import declared_params
from tasks.artifacts import read_json, write_json, write_jsonl
from tasks.layout import Layout
from tasks.params.file import load_params, restrict
from tasks.params.params import Params
from tasks.programs.contract import HEADER, workflow_id
from tasks.records import AskedProblem, Completion, Problem, Record, Result, Sibling, Workflow

if TYPE_CHECKING:
    from rich.table import Table

PROJECT = Path(__file__).parents[1]
CODES = [HEADER + f"    return n[0] {sign} n[1]\n" for sign in "+-*"]
ROUND = 1


class Code(Record):
    """A workflow's text, and the policy's tokens for it."""

    text: str
    tokens: list[int]


class Codes(Record):
    """`codes.json`: what the made-up search finds."""

    codes: list[Code]


@dataclass(frozen=True)
class StageCost:
    """Memory and time of a stage for a number of problems."""

    stage: str
    problems: int
    peak: float  # of memory, in MiB
    seconds: float


def make(layout: Layout, count: int) -> None:
    """Write the files of a round after its search."""
    codes = read_json(layout.root / "codes.json", Codes).codes
    write_jsonl(_problems(layout), (_asked(number) for number in range(count)))
    write_jsonl(layout.workflows(ROUND) / "index.jsonl", _index(codes, count))


def make_policy(layout: Layout) -> None:
    """The policy that round 1 starts from, and its tokens for the codes."""
    from tasks.bootstrap.scratch_model import build_scratch_model
    from tasks.bootstrap.tokenizer import train_tokenizer
    from tasks.model.policy import Policy, attach_adapter, encode_completion, save_policy

    tokenizer = train_tokenizer(CODES, 300)
    model = attach_adapter(build_scratch_model(tokenizer, hidden=32, layers=1, seed=0), rank=2, alpha=2.0, seed=0)
    policy = Policy(model, tokenizer, "", "scratch")
    save_policy(policy, layout.policy(ROUND - 1), parent=None, round=ROUND - 1)
    codes = [Code(text=text, tokens=encode_completion(policy, text)) for text in CODES]
    write_json(layout.root / "codes.json", Codes(codes=codes))


def _problems(layout: Layout) -> Path:
    return layout.workflows(ROUND) / "problems.jsonl"


def _asked(number: int) -> AskedProblem:
    """A problem as the round asks it, with a token for each byte of its prompt."""
    problem = _problem(number).rotated(ROUND)
    prompt = f"{problem.question}\n"
    tokens = list(prompt.encode())
    return AskedProblem(split="train", problem=problem, prompt=prompt, prompt_tokens=tokens)


def _problem(number: int) -> Problem:
    a, b = number % 89 + 1, number % 97 + 2
    sibling = Sibling(question=f"Ann has {b} boxes of {a + 1} pens. How many pens?", answer=b * (a + 1))
    question = f"Ben has {a} boxes of {b} pens. How many pens does he have in all?"
    return Problem(problem_id=f"p{number}", question=question, answer=a * b, source="streaming", siblings=[sibling])


def _index(codes: Sequence[Code], count: int) -> Iterator[Workflow]:
    for number in range(count):
        asked = _asked(number)
        for code in (codes[number % 2], codes[2]):
            right = code is codes[2]
            results = [Result(status="ok", value=answer if right else 0) for answer in asked.problem.numbers]
            completion = Completion(
                tokens=code.tokens, logprobs=[-1 / (place + 2) for place in range(len(code.tokens))]
            )
            yield Workflow(
                problem_id=asked.problem_id,
                split=asked.split,
                workflow_id=workflow_id(code.text),
                code=code.text,
                proposer="sample",
                parent_id=None,
                depth=1,
                visits=2,
                value=float(right),
                prior=0.5,
                result=results[0],
                sibling_results=results[1:],
                completions=[completion] * 2,
                sampled=2,
            )


def collect(layout: Layout, shard: int | None) -> None:
    """The stage."""
    from tasks.collect.task import run

    run(layout, _params("collect", shard), ROUND)


def reward(layout: Layout, shard: int | None) -> None:
    """The stage."""
    from tasks.reward.task import run

    run(layout, _params("reward", shard), ROUND)


STAGES: dict[str, Callable[[Layout, int | None], None]] = {"collect": collect, "reward": reward}


def _params(stage: str, shard: int | None) -> Params:
    params = load_params(PROJECT / "params.yaml")
    changed = params.model_copy(update={"shard_size": shard}) if shard else params
    return restrict(changed, declared_params(PROJECT, stage))


def measure(count: int, whole: bool = False) -> list[StageCost]:
    """All stages for so many problems; `whole`: all of them in one shard."""
    with TemporaryDirectory(prefix="graft-streaming-") as name:
        for step in ("make_policy", "make"):
            _alone(step, name, count, whole)
        return [StageCost(stage, count, *_alone(stage, name, count, whole)) for stage in STAGES]


def _alone(step: str, root: str, count: int, whole: bool) -> tuple[float, float]:
    """MiB at its peak, and seconds, of a step in a process of its own."""
    asked = [step, root, str(count), *(["--all"] if whole else [])]
    command = [sys.executable, "-m", "benchmarks.streaming", "--step", *asked]
    ended = subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True)
    peak, seconds = json.loads(ended.stdout)
    return peak, seconds


def _step(step: str, root: Path, count: int, whole: bool) -> None:
    """In that process. Its peak is its own, as it was started by a small one."""
    settings.set_environment()
    layout, started = Layout(root), time.perf_counter()
    if step == "make_policy":
        make_policy(layout)
    elif step == "make":
        make(layout, count)
    else:
        STAGES[step](layout, count if whole else None)
    print(json.dumps([_peak(), time.perf_counter() - started]))


def _peak() -> float:
    """The most memory that this process has held, in MiB. Linux's ru_maxrss begins with the parent's, however large."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def table(rows: Sequence[tuple[str, StageCost]]) -> "Table":
    """A row for each stage of each way."""
    from rich.table import Table

    made = Table("way", "stage", "problems", "peak MiB", "seconds", "ms a problem")
    for way, row in rows:
        each = 1000 * row.seconds / row.problems
        made.add_row(way, row.stage, f"{row.problems:,}", f"{row.peak:.0f}", f"{row.seconds:.0f}", f"{each:.2f}")
    return made


def figures(streamed: Sequence[StageCost]) -> dict[str, float]:
    """Of the problems that were streamed."""
    return {
        "problems": streamed[0].problems,
        "peak_memory_mb": round(max(row.peak for row in streamed)),
        "seconds": round(sum(row.seconds for row in streamed)),
    }


def main(arguments: Sequence[str]) -> None:
    """Measure, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.streaming", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--problems", type=int, default=1_000_000, help="that are streamed")
    parser.add_argument("--whole", type=int, default=20_000, help="that are taken all at once; 0: none")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--all", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.step:
        step, root, count = asked.step
        _step(step, Path(root), int(count), asked.all)
        return
    rows = [("whole", row) for row in (measure(asked.whole, whole=True) if asked.whole else [])]
    streamed = measure(asked.problems)
    rows += [("streamed", row) for row in streamed]
    Console(width=None if sys.stdout.isatty() else 120).print(table(rows))
    print(json.dumps(figures(streamed)))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug="--step" in sys.argv))
