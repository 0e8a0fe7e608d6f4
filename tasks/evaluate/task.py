"""Stage `evaluate`: the test problems and a policy → `evaluation/{before,after}/`."""

import logging

from tasks.artifacts import atomic_folder, read_jsonl, write_json, write_jsonl, write_text
from tasks.evaluate.by_template import by_template, csv_table
from tasks.evaluate.evaluation import evaluate_problems
from tasks.evaluate.summary import BASE, remarks
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.problems import Problem

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Evaluate the run's first policy (`round` 0) or its final one (`round` None).

    Writes `outcomes.jsonl` (a line per problem), `attempts.jsonl` (a line per distinct workflow) and the table of
    templates. After a warm start also of the base as it was before: else its gain would look like that of
    the rounds.
    """
    name, policy = ("after", layout.run_policy) if round is None else ("before", layout.policy(round))
    problems = read_jsonl(layout.problems("test"), Problem)
    base = None
    if round == 0 and layout.untouched_base.exists():
        base = evaluate_problems(layout, params, layout.untouched_base, problems, f"evaluate@{name}")
    outcomes, written, numbers = evaluate_problems(layout, params, policy, problems, f"evaluate@{name}")
    with atomic_folder(layout.evaluation(name)) as folder:
        write_jsonl(folder / "outcomes.jsonl", outcomes)
        write_jsonl(folder / "attempts.jsonl", [attempt for of_problem in written for attempt in of_problem])
        if base:
            write_jsonl(folder / "base.jsonl", base.outcomes)
            numbers |= {f"{BASE}{metric}": value for metric, value in base.metrics.items()}
    write_text(layout.by_template(name), csv_table(by_template(outcomes)))
    for remark in remarks(numbers, params.evaluation.ks):
        logger.warning(remark)
    write_json(layout.metrics("evaluate", name), numbers)
