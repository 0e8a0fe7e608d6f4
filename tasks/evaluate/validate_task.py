"""Stage `validate`: the dev problems and a round's policy → the standings of the rounds so far.

Dev problems are used for nothing else; `validation` also serves influence and, with `influence.train_on_validation`,
training. Rounds that `evaluation.every` skips have empty metrics.
"""

from tasks.artifacts import digest_path, read_json, read_jsonl, read_text, write_json, write_jsonl, write_text
from tasks.core.metrics_files import read_metrics
from tasks.evaluate.best_round import is_measured
from tasks.evaluate.evaluation import evaluate_problems
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records.evaluation import Standing
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.statistics.learning_curves import CURVES, round_row


def run(layout: Layout, params: Params, round: int | None) -> None:
    """Write the standings of the rounds so far, one line more if this round's policy is measured, and the curves."""
    assert round is not None
    standings = read_jsonl(layout.standings(round - 1), Standing)
    numbers: dict[str, float] = {}
    if is_measured(round, params.rounds.last, params.evaluation.every):
        policy = layout.policy(round)
        problems = read_jsonl(layout.problems("dev"), Problem)
        outcomes, _, numbers = evaluate_problems(layout, params, policy, problems, f"validate@{round}")
        standings.append(
            Standing(
                round=round,
                version=read_json(policy / "lineage.json", Lineage).version,
                policy_sha256=digest_path(policy),
                samples=params.evaluation.samples,
                correct=[outcome.correct for outcome in outcomes],
            )
        )
    write_jsonl(layout.standings(round), standings)
    stages = {stage: read_metrics(layout, f"{stage}@{round}") for stage, _ in CURVES.values()}
    write_text(layout.curves(round), read_text(layout.curves(round - 1)) + round_row(round, stages))
    write_json(layout.metrics("validate", round), numbers)
