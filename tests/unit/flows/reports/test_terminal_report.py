"""The report of a run in a terminal of 80 columns."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from flows.reports.comparison import COSTS
from flows.reports.run_record import read_run_record
from flows.reports.terminal import print_report
from tasks.artifacts import write_json, write_jsonl, write_text
from tasks.evaluate.summary import summarise
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.records.evaluation import Choice, ProblemOutcome
from tests.support.params_file import override
from tests.support.records import make_outcome, make_promotion

SHIPPED = Path(__file__).parents[4] / "params.yaml"
SECONDS = {"problems": 0.1, "search@1": 20.0, "search@2": 22.5, "evaluate@before": 9.0, "evaluate@after": 8.0}


def outcomes(right: int) -> list[ProblemOutcome]:
    """200 problems of which the first `right` are solved."""
    by_success = ({"correct": 1, "wrong": [10, 8]}, {"correct": 18, "wrong": [1]})
    kinds = [{"seen": i % 4 != 0, "siblings_passed": i < right - 10, "operations": 1} for i in range(200)]
    kinds = [kind if kind["seen"] else {**kind, "novelty": "composition"} for kind in kinds]
    return [
        make_outcome(f"p{i}", greedy=i < right, samples=20, invalid=1, distinct=4, **by_success[i < right], **kind)
        for i, kind in enumerate(kinds)
    ]


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """The files of a run of three rounds in the working directory, as far as the report reads them."""
    monkeypatch.chdir(tmp_path)
    layout = Layout(tmp_path)
    write_text(tmp_path / "params.yaml", SHIPPED.read_text())
    override(tmp_path / "params.yaml", ["rounds=3"])
    params = load_params(tmp_path / "params.yaml")
    write_jsonl(layout.problems("test"), [])
    for name, right in (("before", 100), ("after", 120)):
        write_jsonl(layout.evaluation(name) / "outcomes.jsonl", outcomes(right))
        write_json(layout.metrics("evaluate", name), summarise(outcomes(right), params.evaluation, params.seed))
        write_jsonl(layout.evaluation(name) / "attempts.jsonl", [])
    for number in (1, 2, 3):
        reward = {"epoch/mean_reward": 0.5 + number / 10, "epoch/accumulated_reward": 1200.5, "solved_share": 0.9}
        write_json(layout.metrics("reward", number), {**reward, "epoch/samples": 2400, "epoch/reward_std": 0.45})
        write_json(layout.metrics("select", number), {"selected_share": 0.61})
        write_jsonl(layout.selection(number), [])
    reason = "promoted: 0.600 beats the first policy's 0.500 by 0.100 (95 % interval 0.060 … 0.145)"
    write_json(layout.promotion, make_promotion(reason=reason, pass_at_1=0.6, difference=0.1, low=0.06, high=0.145))
    write_text(layout.page, "a page")
    return layout


def add(layout: Layout, stage: str, part: int | str, numbers: dict[str, float]) -> None:
    path = layout.metrics(stage, part)
    write_json(path, json.loads(path.read_text()) | numbers)


def report(layout: Layout, *assignments: str, **terminal: object) -> str:
    """What a console of 80 columns shows, without colours; no line is longer, and rich cuts none."""
    override(layout.root / "params.yaml", assignments)
    params: Params = load_params(layout.root / "params.yaml")
    console = Console(record=True, file=io.StringIO(), width=80, **terminal)  # type: ignore[arg-type]
    print_report(layout, params, read_run_record(layout), SECONDS, {"problems", "search@1"}, console)
    shown = "\n".join(line.rstrip() for line in console.export_text().splitlines())
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("(") == shown.count(")"), "rich ends a cell that it cuts with …"
    return shown


def test_the_report_of_a_run(layout: Layout) -> None:
    shown = report(layout)
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert [row for row in rows if row in ROWS] == ROWS
    assert report(layout, force_terminal=True) == shown
    layout.page.unlink()  # it could not be written
    assert "page.html" not in report(layout)


def test_the_report_says_what_is_not_learned_from_and_what_decided_the_selection(layout: Layout) -> None:
    for number in (1, 2, 3):
        add(layout, "select", number, {"samples": 1200, "selected": 800})
    failures = "Failures are not learned from (update.negative_weight 0)."
    shown = report(layout, "influence.selection=none")
    assert failures in shown
    assert "Nothing was measured or dropped (influence.selection none)." in shown
    assert failures not in report(layout, "update.negative_weight=1.0")


def test_costs_and_measures_of_an_environment_have_rows_but_not_those_of_seen_and_unseen_templates(
    layout: Layout,
) -> None:
    for when, legal in (("before", 0.25), ("after", 0.5)):
        measures = {"measure/p_legal/sampled": legal, "measure/p_legal/sampled_unseen": 0.1}
        interval = {"measure/p_legal/sampled_low": legal - 0.1, "measure/p_legal/sampled_high": legal + 0.1}
        add(layout, "evaluate", when, measures | interval | dict.fromkeys(COSTS, 1.5))
        long = dict.fromkeys((f"measure/{'long_' * 9}name/sampled{end}" for end in ("", "_low", "_high")), legal)
        add(layout, "evaluate", when, long)
    shown = report(layout)  # which folds the long name
    assert all(title in shown for title in COSTS.values())
    rows = [" ".join(line.split()) for line in shown.splitlines() if line.startswith("p legal")]
    assert rows == ["p legal sampled 0.250 (0.15–0.35) 0.500 (0.40–0.60) +0.250"]


@pytest.mark.parametrize("uri", ["sqlite:///mlflow.db", "http://127.0.0.1:5000", ""])
def test_the_report_names_the_store_of_mlflow(layout: Layout, uri: str) -> None:
    shown = report(layout, f'machine.tracking.uri="{uri}"')
    (line,) = (text.split(maxsplit=1)[1] for text in shown.splitlines() if text.startswith("MLflow"))
    assert line == uri or (not uri and line == "off (machine.tracking.uri is empty)")


def test_the_best_round_is_named_and_each_rounds_dev_score_shown(layout: Layout) -> None:
    assert "dev pass@1" not in report(layout)
    for number, numbers in ((1, {}), (2, {"pass_at_1": 0.5125}), (3, {"pass_at_1": 0.5})):
        write_json(layout.metrics("validate", number), numbers)
    reason = "round 2 has the highest pass@1 on 80 dev problems: 0.512"
    write_json(layout.best, Choice(round=2, version="v", reason=reason))
    shown = report(layout, "evaluation.every=2", "problems.dev=80")
    rows = [line.split() for line in shown.splitlines() if line[:2] in ("1 ", "2 ", "3 ")]
    assert [row[-1] for row in rows] == ["%", "0.512", "0.500"]
    assert f"Best: {reason}." in shown


ROWS = [
    "pass@1 greedy 0.500 (0.43–0.56) 0.600 (0.53–0.67) +0.100 (+0.06 … +0.14)",
    "unseen 0.500 (0.36–0.64) 0.600 (0.46–0.73) +0.100 (+0.02 … +0.20)",
    "new composition 0.500 (0.36–0.64) 0.600 (0.46–0.73) +0.100 (+0.02 … +0.18)",
    "operations: 1 0.500 (0.43–0.57) 0.600 (0.53–0.67) +0.100 (+0.06 … +0.14)",
    "siblings passed 0.450 (0.39–0.52) 0.550 (0.48–0.62) +0.100 (+0.06 … +0.14)",
    "pass@5 sampled 0.625 (0.57–0.68) 0.700 (0.65–0.75) +0.075 (+0.04 … +0.10)",
    "maj@10 sampled 0.500 (0.43–0.57) 0.600 (0.54–0.67) +0.100 (+0.06 … +0.14)",
    "invalid samples 0.050 0.050 +0.000",
    "3 2400 0.800 0.450 1200.5 90 % 61 %",
    "search 2 42.5 1 of 2 cached",
    "evaluate 2 17.0",
    "all 5 59.6",
    "page run/page.html",
    "MLflow sqlite:///mlflow.db",
]
"""Of each table those that differ in kind, in their order."""


def test_base_warm_start_and_end_have_a_column_each_and_the_change_is_that_of_the_rounds(layout: Layout) -> None:
    plain = report(layout)
    base = outcomes(20)
    write_jsonl(layout.evaluation("before") / "base.jsonl", base)
    measured = summarise(base, load_params(layout.root / "params.yaml").evaluation, 0)
    add(layout, "evaluate", "before", {f"base/{name}": value for name, value in measured.items()})
    rows = [" ".join(line.split()) for line in report(layout).splitlines()]
    assert rows[0] == "measure base warm start after"
    three, changed = (row.split() for row in rows if row.startswith("pass@1 greedy 0"))
    low, high = (measured[f"pass_at_1_greedy_{end}"] for end in ("low", "high"))
    assert three[2:4] == ["0.100", f"({low:.2f}–{high:.2f})"]
    assert three[4:] == changed[2:6]
    assert " ".join(changed) in [" ".join(line.split()) for line in plain.splitlines()]
    assert "200 test problems warm start after change" in rows
    assert "base" not in plain
