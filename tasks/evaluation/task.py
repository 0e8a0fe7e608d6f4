"""The evaluate stage: the test problems and a round's policy → `evaluation/{before,after}/`."""

import logging

from tasks.artifacts import read_jsonl, whole_folder, write_json, write_jsonl, write_text
from tasks.evaluation.summary import outcome_of, remarks, summarise
from tasks.evaluation.templates import by_template, table_of
from tasks.layout import Layout
from tasks.params import Params
from tasks.policy.attempts import attempts
from tasks.policy.base import load_policy
from tasks.policy.served import entered, served_by
from tasks.records import Problem
from tasks.workflows.sandbox import sandbox_of

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Measure the policy of `round`: 0 is the policy that the run started from, any other the one it ends with.

    Writes `outcomes.jsonl` (a line a problem) and `attempts.jsonl` (a line a distinct workflow, to be read).
    """
    assert round is not None
    name = "after" if round else "before"
    problems = read_jsonl(layout.problems("test"), Problem)
    policy = load_policy(layout.policy(round))
    served = served_by(policy, params.operators, layout)
    with sandbox_of(params.sandbox, served) as sandbox:
        written = attempts(
            policy,
            problems,
            sandbox,
            params.policy.max_new_tokens,
            params.evaluation.samples,
            params.evaluation.temperature,
            params.seed,
        )
    outcomes = [outcome_of(problem, own) for problem, own in zip(problems, written, strict=True)]
    with whole_folder(layout.evaluation(name)) as folder:
        write_jsonl(folder / "outcomes.jsonl", outcomes)
        write_jsonl(folder / "attempts.jsonl", [attempt for own in written for attempt in own])
    write_text(layout.by_template(name), table_of(by_template(outcomes)))
    numbers = summarise(outcomes, params.evaluation, params.seed)
    for remark in remarks(numbers, params.evaluation.ks):
        logger.warning(remark)
    write_json(layout.metrics("evaluate", name), numbers | entered(served, layout, f"evaluate@{name}"))
