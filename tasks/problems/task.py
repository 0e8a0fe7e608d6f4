"""Stage `problems`: the problems of four splits, generated, written by the environment, or read from files."""

import logging

from tasks.artifacts import write_json, write_jsonl
from tasks.environments.lookup import problem_writer
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.problems.environment_problems import checked_problems
from tasks.problems.files import problem_files, problem_text
from tasks.problems.generate import generate
from tasks.problems.jsonl import Reader, read_files, split_problems
from tasks.problems.metrics import problem_metrics
from tasks.records import Problem, Split
from tasks.sources.user_modules import digest_modules

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None = None) -> None:  # noqa: ARG001 - all stages look alike
    """Write `problems/{train,validation,test,dev}.jsonl`."""
    problems = read_problems(layout, params)
    for split, listed in problems.items():
        write_jsonl(layout.problems(split), listed)
    write_json(layout.metrics("problems"), problem_metrics(problems))


def read_problems(layout: Layout, params: Params) -> dict[Split, list[Problem]]:
    """The problems of all splits, generated, the environment's own, or from the file of `problems.path`."""
    if params.problems.source == "environment":
        return checked_problems(problem_writer(layout.root, params).problems(params.problems, params.seed), params)
    if params.problems.source != "jsonl":
        return generate(params.problems, params.seed)
    path = params.problems.path
    own = params.problems
    module, user_defined, _ = own.evaluator.partition(":")
    digest = digest_modules(layout.root, [module]) if user_defined else None
    reader = Reader(own.evaluator, layout.root, digest, own.siblings, params.sandbox)
    texts = ((name, problem_text(name, file), file.name) for name, file in problem_files(layout.root, path).items())
    return split_problems(path, read_files(texts, reader, logger.info), params.problems, params.seed)
