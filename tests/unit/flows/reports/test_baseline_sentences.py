"""The two lines of a run about what there is without training, and that terminal, page and summary have them."""

import io
from pathlib import Path

import pytest

from flows.reports.baseline_sentences import baseline_sentences
from flows.reports.comparison import make_sides
from flows.reports.html.page import render_page
from flows.reports.publish import summary_of
from flows.reports.run_record import read_run_record
from flows.reports.terminal import print_report
from tasks.artifacts import write_json
from tasks.core.console import PlainConsole
from tasks.params.file import load_params
from tests.support import finished_run


def level(name: str, mean: float, low: float, high: float) -> dict[str, float]:
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


NUMBERS = {
    "spent": 2784.0,
    "samples": 40.0,
    "tries": 10.0,
    "workflows": 10.0,
    **level("workflows_solve", 0.395, 0.33, 0.465),
    **level("first_workflow_solves", 0.085, 0.05, 0.125),
    **level("samples_solve", 0.845, 0.79, 0.895),
    **level("majority_solves", 0.474, 0.408, 0.542),
    **level("lead_over_majority", 0.306, 0.232, 0.379),
}
AFTER = {
    "problems": 24.0,
    **level("pass_at_1_greedy", 0.78, 0.72, 0.835),
    **level("pass_at_5", 0.8, 0.7, 0.9),
    **level("pass_at_10", 0.851, 0.803, 0.896),
}
STORED = (
    "10 stored workflows, the same ones for every test problem: one of them solves 0.395 (0.33 … 0.47), the first "
    "alone 0.085 (0.05 … 0.12); the trained policy solves 0.851 (0.80 … 0.90) in 10 tries, 0.780 (0.72 … 0.83) in one."
)
FIRST = (
    "The first policy with 40 samples of each test problem (training spent 116): one of them is right for 0.845 "
    "(0.79 … 0.90), if a key picks it; their majority for 0.474 (0.41 … 0.54), without a key. The trained policy leads "
    "that by +0.306 (+0.23 … +0.38) with one sample."
)


def test_the_two_lines() -> None:
    assert baseline_sentences({"baselines": NUMBERS, "evaluate@after": AFTER}) == [STORED, FIRST]
    few = {"baselines": NUMBERS | {"spent": 980.0}, "evaluate@after": AFTER}
    assert baseline_sentences(few)[1] == FIRST.replace("training spent 116", "as many as training spent")
    alone = {name: value for name, value in NUMBERS.items() if "workflow" not in name and name != "tries"}
    assert baseline_sentences({"baselines": alone, "evaluate@after": AFTER}) == [FIRST]


@pytest.mark.parametrize("gone", sorted(NUMBERS))
def test_of_a_run_that_lacks_a_number_there_is_no_line_that_needs_it(gone: str) -> None:
    lacking = {name: value for name, value in NUMBERS.items() if name != gone}
    told = baseline_sentences({"baselines": lacking, "evaluate@after": AFTER})
    assert told == {"samples": [STORED], "workflows": [FIRST]}.get(gone, [])
    assert baseline_sentences({"baselines": NUMBERS, "evaluate@after": {}}) == []
    _, none = baseline_sentences({"baselines": NUMBERS, "evaluate@after": AFTER | {"problems": 0.0}})  # of others
    assert "(training spent 2,784)" in none
    assert baseline_sentences({"evaluate@after": AFTER}) == []


def test_terminal_page_and_summary_have_them(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    for number in (1, 2):
        write_json(layout.metrics("select", number), {"selected_share": 0.5})
        more = {"epoch/samples": 1.0, "epoch/accumulated_reward": 1.0}
        write_json(layout.metrics("reward", number), read_run_record(layout).metrics[f"reward@{number}"] | more)
    lines = read_run_record(layout).baseline_lines
    assert lines == []
    write_json(layout.metrics("baselines"), NUMBERS)
    record, console = read_run_record(layout), PlainConsole(file=io.StringIO(), width=1000)
    stored, first = record.baseline_lines
    print_report(layout, load_params(tmp_path / "params.yaml"), record, {}, set(), console)
    page = render_page(make_sides([("this run", record)]))
    for text in (console.file.getvalue(), page, summary_of(record)):  # type: ignore[attr-defined]
        assert stored in text
        assert first in text
    both = render_page(make_sides([("one", record), ("other", record)]))
    assert f"<p>A: {stored}</p>" in both
    assert f"<p>B: {first}</p>" in both
