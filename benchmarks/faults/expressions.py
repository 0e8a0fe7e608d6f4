"""Verdicts of the evaluator of expressions on pairs of answers that are equal, and on pairs that are not."""

import json
from pathlib import Path

from tasks.evaluators.expression import are_equal

ROOT = Path(__file__).resolve().parents[2]
TABLES = (
    ROOT / "tests/unit/evaluators/expression_pairs.jsonl",
    ROOT.parent / "shared/faults/expression_pairs.jsonl",  # from other projects' tests and issues, where it is there
)


def measure() -> dict[str, float]:
    """The number of different answers that are taken as equal, and the share of right verdicts."""
    lines = [line for table in TABLES if table.exists() for line in table.read_text(encoding="utf-8").splitlines()]
    pairs = list(map(json.loads, lines))
    verdicts = [are_equal(pair["written"], pair["key"]) for pair in pairs]
    wrong = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict != pair["equal"]]
    return {
        "expression_false_positives": sum(not pair["equal"] for pair in wrong),
        "expression_right_share": 1 - len(wrong) / len(pairs),
    }
