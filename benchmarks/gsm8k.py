"""GSM8K: a run trained on its training split, measured before and after on a test file.

    python -m benchmarks.gsm8k train.jsonl test.jsonl --keep FOLDER

The environment is `answer`, the prompt four worked solutions of the training split as text, and the base SmolLM2 of
135M parameters (`make smollm2`) unless `-S policy.base=` names another. With `--keep` an interrupted run goes on
where it was, and what was measured stays. Prints pass@1 (greedy, and of samples) and maj@8 with intervals, and the
learning curve: the mean reward of the training samples by round. The last line is one JSON object.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.learning import LearningRun, learn
from benchmarks.support.small_model import BASE, LEARNING
from benchmarks.support.workspace import make_workspace
from flows.process.exit_codes import exit_code
from tasks.artifacts import read_text, write_text
from tasks.core.metrics_files import read_metrics
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.errors import GraftError
from tasks.evaluate.measure import evaluate_problems
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.problems.jsonl import Reader

if TYPE_CHECKING:
    from rich.table import Table

TRAIN, EXAMPLES = "gsm8k.jsonl", "gsm8k_examples.jsonl"
EXAMPLE_COUNT = 4
SETTINGS = (
    *BASE,
    *LEARNING,
    "rounds=4",
    *("environment=answer", "problems.source=jsonl", f"problems.path={TRAIN}", f"policy.prompt.file={EXAMPLES}"),
    *("problems.train=64", "problems.validation=1", "problems.test=8", "policy.max_new_tokens=128"),
    *("evaluation.samples=16", "evaluation.ks=[1, 8]"),
)
"""Learning as in the preset `medium`; all problems are for training but 9, as the test file is separate."""

NAMES = {"pass_at_1_greedy": "pass@1 greedy", "pass_at_1": "pass@1 sampled", "maj_at_8": "maj@8"}


def worked_example(line: str) -> dict[str, str]:
    """Question and solution in tags of a line of GSM8K, without the calculator's annotations (<<48/2=24>>)."""
    fields = json.loads(line)
    solution, _, answer = re.sub(r"<<.*?>>", "", fields["answer"]).partition("####")
    completion = TaggedAnswer().written(solution.strip().split("\n"), answer.strip().replace(",", ""))
    return {"question": fields["question"], "completion": completion}


def prepare(root: Path, train: Path, assignments: Sequence[str]) -> Path:
    """A workspace that trains on the file `train` without its first lines, which are the worked examples.

    Raises GraftError where the file has no more lines than these.
    """
    lines = [line for line in read_text(train).split("\n") if line.strip()]
    if len(lines) <= EXAMPLE_COUNT:
        raise GraftError(f"{train}: {len(lines)} lines; the first {EXAMPLE_COUNT} are worked examples, add more")
    examples = [json.dumps(worked_example(line), ensure_ascii=False) for line in lines[:EXAMPLE_COUNT]]
    make_workspace(root, assignments)
    write_text(root / TRAIN, "\n".join(lines[EXAMPLE_COUNT:]) + "\n")
    write_text(root / EXAMPLES, "\n".join(examples) + "\n")
    return root


def measure(root: Path, test: Path, limit: int | None) -> LearningRun:
    """The metrics of the run's first and final policy on the first `limit` problems of the file `test`."""
    layout, params = Layout(root), load_params(root / "params.yaml")
    problems = Reader().read(str(test), read_text(test), test.name)[:limit]
    found = {}
    for when, policy in (("before", layout.policy(0)), ("after", layout.run_policy)):
        kept = root / ".graft" / f"gsm8k-{when}-{len(problems)}.json"
        if not kept.exists():
            numbers = evaluate_problems(layout, params, policy, problems, f"evaluate@{when}").metrics
            write_text(kept, json.dumps(numbers))
        found[when] = json.loads(read_text(kept))
    return LearningRun(found["before"], found["after"], 0.0)


def learning_curve(root: Path) -> list[float]:
    """The mean reward of the training samples, by round."""
    layout = Layout(root)
    rounds = load_params(root / "params.yaml").rounds.last
    return [read_metrics(layout, f"reward@{number}")["epoch/mean_reward"] for number in range(1, rounds + 1)]


def table(run: LearningRun, problems: int) -> "Table":
    """A row for each measure: before and after, with intervals."""
    from rich.table import Table

    made = Table(title=f"GSM8K, {problems} test problems", title_justify="left")
    for title in ("", "before", "after", "change"):
        made.add_column(title, justify="right" if title else "left")
    for name, title in NAMES.items():
        ends = [f"{m[name]:.3f} ({m[f'{name}_low']:.3f}–{m[f'{name}_high']:.3f})" for m in (run.before, run.after)]
        made.add_row(title, *ends, f"{run.gain(name):+.3f}")
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the table and the learning curve, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.gsm8k", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("train", type=Path, help="the training split, JSON lines")
    parser.add_argument("test", type=Path, help="the test split, likewise")
    parser.add_argument("--limit", type=int, help="measure on the first N problems of the test split only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-S", dest="assignments", action="append", default=[], metavar="KEY=VALUE", help="set a param")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the workspace, and go on with what is there")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the run prints")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="graft-gsm8k-") as temporary:
        root = (options.keep or Path(temporary)) / "gsm8k"
        settings = [*SETTINGS, *options.assignments, f"seed={options.seed}"]
        if not root.exists():
            prepare(root, options.train, settings)
        seconds = learn(root, options.seed, settings, options.verbose).seconds
        run, curve = measure(root, options.test, options.limit), learning_curve(root)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table(run, int(run.after["problems"])))
    console.print("mean reward by round: " + ", ".join(f"{mean:.3f}" for mean in curve))
    figures = {f"{name}_{when}": getattr(run, when)[name] for name in NAMES for when in ("before", "after")}
    rounded = {name: round(number, 4) for name, number in figures.items()}
    print(json.dumps({**rounded, "curve": curve, "minutes": round(seconds / 60, 1), "seed": options.seed}))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
