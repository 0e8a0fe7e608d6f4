"""Stage `problems`: the problems of four splits, written by the environment or read from files."""

import logging

from tasks.artifacts import write_json, write_jsonl
from tasks.environments.lookup import environment_in
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.problems.environment_problems import checked_problems
from tasks.problems.files import problem_files, problem_text
from tasks.problems.jsonl import make_reader, read_files, split_problems
from tasks.records.problems import Problem, Split

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None = None) -> None:  # noqa: ARG001 - all stages look alike
    """Write `problems/{train,validation,test,dev}.jsonl`."""
    problems = read_problems(layout, params)
    for split, listed in problems.items():
        write_jsonl(layout.problems(split), listed)
    write_json(layout.metrics("problems"), _metrics(problems))


def read_problems(layout: Layout, params: Params) -> dict[Split, list[Problem]]:
    """The problems of all splits, the environment's or from the file of `problems.path`."""
    if params.problems.source == "environment":
        return checked_problems(environment_in(layout.root, params).problems(params.problems, params.seed), params)
    path, reader = params.problems.path, make_reader(layout.root, params)
    texts = ((name, problem_text(name, file), file.name) for name, file in problem_files(layout.root, path).items())
    return split_problems(path, read_files(texts, reader, logger.info), params.problems, params.seed)


def _metrics(problems: dict[Split, list[Problem]]) -> dict[str, float]:
    """Size of each split and share with siblings; for generated problems also counts of templates."""
    everything = [problem for listed in problems.values() for problem in listed]
    numbers: dict[str, float] = {split: len(listed) for split, listed in problems.items()}
    numbers["with_siblings"] = sum(bool(problem.siblings) for problem in everything) / len(everything)
    templates = {problem.template for problem in everything if problem.template is not None}
    if templates:
        numbers["templates"] = len(templates)
        numbers["test_unseen"] = sum(problem.seen is False for problem in problems["test"]) / len(problems["test"])
    return numbers
