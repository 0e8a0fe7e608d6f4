"""The stage `problems`: four files of problems, generated or read from the file that the params name."""

from pathlib import Path

from tasks.artifacts import read_text, write_json, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params import Params
from tasks.problems.generate import generate
from tasks.problems.jsonl import read_problems, split_problems
from tasks.problems.metrics import metrics_of
from tasks.records import Problem, Split


def run(layout: Layout, params: Params, round: int | None = None) -> None:  # noqa: ARG001 - all stages look alike
    """Write `problems/{train,validation,test,dev}.jsonl`."""
    problems = _read(layout, params) if params.problems.source == "jsonl" else generate(params.problems, params.seed)
    for split, listed in problems.items():
        write_jsonl(layout.problems(split), listed)
    write_json(layout.metrics("problems"), metrics_of(problems))


def _read(layout: Layout, params: Params) -> dict[Split, list[Problem]]:
    name = params.problems.path
    if not (layout.root / name).exists():
        raise GraftError(f"problems.path: no file {name}; name a jsonl file, for instance examples/problems.jsonl")
    problems = read_problems(name, read_text(layout.root / name), Path(name).name)
    return split_problems(name, problems, params.problems, params.seed)
