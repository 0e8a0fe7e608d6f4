"""Stage `problems`: the problems of the splits, written by the environment or read from files."""

import logging
from os.path import isfile

from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.environments.lookup import environment_in
from tasks.known_problems import read_known
from tasks.layout import KNOWN, REPLAY, Layout
from tasks.params.params import Params
from tasks.problems.demonstrations import demonstrations_of
from tasks.problems.environment_problems import written_problems
from tasks.problems.files import problem_files, problem_text
from tasks.problems.jsonl import make_reader, read_files
from tasks.problems.replay import pool_after, with_replay
from tasks.problems.splits import split_problems
from tasks.records.problems import Problem, Split

logger = logging.getLogger(__name__)

UNRECORDED = (
    "{base} is of an older Graft and has no record of what it learnt from: the test problems may be among that. "
    "The policy of this run has one, and what it learns from is never a test problem of runs that continue it"
)


def run(layout: Layout, params: Params, round: int | None = None) -> None:  # noqa: ARG001 - all stages look alike
    """Write `problems/{train,validation,test,dev,confirm}.jsonl`, demonstrations, and what the run's policy will
    have learnt from.
    """
    base = layout.root / params.policy.base
    if isfile(base / "lineage.json") and not isfile(base / KNOWN):
        logger.warning(UNRECORDED.format(base=params.policy.base))
    problems, pool = read_problems(layout, params), list[Problem]()
    if params.problems.replay:
        pool = read_jsonl(base / REPLAY, Problem) if isfile(base / REPLAY) else []
        present = [problem for listed in problems.values() for problem in listed]
        problems["train"] = with_replay(problems["train"], pool, present, params.problems.replay, params.seed)
        pool = pool_after(pool, problems["train"], params.seed)
    write_jsonl(layout.carried(REPLAY), pool)
    demonstrations = demonstrations_of(layout.root, params, environment_in(layout.root, params), problems)
    write_json(layout.demonstrations, demonstrations)
    write_json(layout.carried(KNOWN), read_known(base).with_run(problems, demonstrations.examples))
    for split, listed in problems.items():
        write_jsonl(layout.problems(split), listed)
    write_json(layout.metrics("problems"), _metrics(problems))


def read_problems(layout: Layout, params: Params) -> dict[Split, list[Problem]]:
    """The problems of all splits, the environment's or from the file of `problems.path`."""
    known = read_known(layout.root / params.policy.base)
    if params.problems.source == "environment":
        return {**written_problems(environment_in(layout.root, params), params, known), "confirm": []}
    path, reader = params.problems.path, make_reader(layout.root, params)
    texts = ((name, problem_text(name, file), file.name) for name, file in problem_files(layout.root, path).items())
    return split_problems(path, read_files(texts, reader, logger.info), params.problems, params.seed, known)


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
