import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from flows.reports.comparison import COSTS
from flows.reports.run_record import read_run_record
from flows.reports.terminal import print_report
from tasks.artifacts import write_json, write_jsonl, write_text
from tasks.core.metrics_files import read_metrics
from tasks.errors import GraftError
from tasks.evaluate.summary import summarise
from tasks.layout import Layout
from tasks.params.file import load_params, override
from tasks.params.params import Params
from tasks.params.sections import Rounds
from tasks.programs.contract import HEADER
from tasks.records import Choice, ProblemOutcome, Standing
from tasks.reward.histogram import histogram_csv, reward_histogram
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import changed as changed_group
from tests.support.groups import write_rewarded
from tests.support.records import make_outcome, make_promotion
from tests.support.selections import selected_by_influence

SHIPPED = Path(__file__).parents[4] / "params.yaml"
SECONDS = {"problems": 0.1, "search@1": 20.0, "search@2": 22.5, "evaluate@before": 9.0, "evaluate@after": 8.0}


def rounds(params: Params, last: int) -> Params:
    start = {str(number): number - 1 for number in range(1, last + 1)}
    return params.model_copy(update={"rounds": Rounds(last=last, start=start)})


def changed(params: Params, section: str, **fields: object) -> Params:
    return params.model_copy(update={section: getattr(params, section).model_copy(update=fields)})


def recorded_in(params: Params, uri: str) -> Params:
    return changed(params, "machine", tracking=params.machine.tracking.model_copy(update={"uri": uri}))


@pytest.fixture
def params() -> Params:
    """The shipped ones with three rounds."""
    return rounds(load_params(SHIPPED), 3)


def outcomes(right: int, siblings: bool = True, templates: bool = True) -> list[ProblemOutcome]:
    """200 problems of which the first `right` are solved."""
    by_success = ({"correct": 1, "wrong": [10, 8]}, {"correct": 18, "wrong": [1]})
    return [
        make_outcome(f"p{i}", greedy=i < right, samples=20, invalid=1, distinct=4, **by_success[i < right])
        .model_copy(update={"template": "t", "seen": i % 4 != 0} if templates else {})
        .model_copy(update={"siblings_passed": i < right - 10} if siblings else {})
        for i in range(200)
    ]


def write_evaluation(layout: Layout, params: Params, name: str, own: list[ProblemOutcome]) -> None:
    write_jsonl(layout.evaluation(name) / "outcomes.jsonl", own)
    write_json(layout.metrics("evaluate", name), summarise(own, params.evaluation, params.seed))


def written(root: Path, params: Params, siblings: bool = True, templates: bool = True) -> Layout:
    """The files of a run, as far as the report reads them."""
    layout = Layout(root)
    write_text(root / "params.yaml", SHIPPED.read_text())
    override(root / "params.yaml", [f"rounds={params.rounds.last}"])
    write_jsonl(layout.problems("test"), [])
    for name, right in (("before", 100), ("after", 120)):
        write_evaluation(layout, params, name, outcomes(right, siblings, templates))
        write_jsonl(layout.evaluation(name) / "attempts.jsonl", [])
    for number in range(1, params.rounds.last + 1):
        reward = {"epoch/mean_reward": 0.5 + number / 10, "epoch/accumulated_reward": 1200.5}
        reward |= {"epoch/samples": 2400, "epoch/reward_std": 0.45, "positive_share": 0.7, "solved_share": 0.9}
        write_json(layout.metrics("reward", number), reward)
        bins = reward_histogram([0.0] * 4 + [0.5] + [1.0] * (4 * number), 0.0, 1.0)
        write_text(layout.reward_histogram(number), histogram_csv(bins))
        write_json(layout.metrics("select", number), {"selected_share": 0.61})
        write_json(layout.metrics("collect", number), {"train": 200, "commonest_share": 0.1})
        write_json(layout.metrics("update", number), {"entropy": 0.4})
        write_json(layout.metrics("search", number), {"solved": 60 + number})
        write_jsonl(layout.selection(number), [])
    reason = "promoted: 0.600 beats the first policy's 0.500 by 0.100 (95 % interval 0.060 … 0.145)"
    write_json(layout.promotion, make_promotion(reason=reason, pass_at_1=0.6, difference=0.1, low=0.06, high=0.145))
    return layout


@pytest.fixture
def layout(tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A run in the working directory."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, params)


def add(layout: Layout, stage: str, number: int, **numbers: float) -> None:
    path = layout.metrics(stage, number)
    write_json(path, json.loads(path.read_text()) | {name.replace("__", "/"): n for name, n in numbers.items()})


def report(layout: Layout, params: Params, cached: set[str] | None = None, **terminal: object) -> str:
    """What a console of 80 columns shows, without colours; no line is longer, and rich cuts none."""
    console = Console(record=True, file=io.StringIO(), width=80, **terminal)  # type: ignore[arg-type]
    print_report(layout, params, read_run_record(layout), SECONDS, cached or set(), console)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= 80
    return "\n".join(lines)


def prose(layout: Layout, params: Params) -> str:
    """The report with its line breaks removed."""
    return " ".join(report(layout, params).split())


def test_the_report_of_a_run(layout: Layout, params: Params) -> None:
    write_text(layout.page, "a page")
    assert report(layout, params, {"problems", "search@1"}) == SNAPSHOT


def test_rows_of_costs_cut_no_interval(layout: Layout, params: Params) -> None:
    for name in ("before", "after"):
        path = layout.root / f"run/metrics/evaluate@{name}.json"
        write_json(path, json.loads(path.read_text()) | dict.fromkeys(COSTS, 1.5))
    shown = report(layout, params)
    assert all(title in shown for title in COSTS.values())
    assert re.search(r"\S…", shown) is None


def test_measures_of_an_environment_have_rows_but_not_those_of_seen_and_unseen_templates(
    layout: Layout, params: Params
) -> None:
    for when, legal in (("before", 0.25), ("after", 0.5)):
        numbers = json.loads(layout.metrics("evaluate", when).read_text())
        own = {"measure/p_legal/sampled": legal, "measure/p_legal/sampled_unseen": 0.1}
        write_json(layout.metrics("evaluate", when), numbers | own | {"measure/a_terminated_right/sampled": legal})
    shown = report(layout, params)
    rows = [line.split() for line in shown.splitlines() if line.startswith("p legal")]
    assert rows == [["p", "legal", "sampled", "0.250", "0.500", "+0.250"]]
    ends = {"measure/p_legal/sampled_low": 0.45, "measure/p_legal/sampled_high": 0.56}
    write_json(layout.metrics("evaluate", "after"), read_metrics(layout, "evaluate@after") | ends)
    rows = [line.split() for line in report(layout, params).splitlines() if line.startswith("p legal")]
    assert rows == [["p", "legal", "sampled", "0.250", "0.500", "(0.45–0.56)", "+0.250"]]
    assert shown.count("(") == shown.count(")"), "long names of measures cut no interval"


def test_a_page_that_could_not_be_written_is_not_named(layout: Layout, params: Params) -> None:
    assert "page.html" not in report(layout, params)


@pytest.mark.parametrize("terminal", [True, False])
def test_no_cell_is_cut(layout: Layout, params: Params, terminal: bool) -> None:
    shown = report(layout, params, force_terminal=terminal)
    assert shown.count("(") == shown.count(")")  # rich ends a cell that it cuts with …


def test_problems_without_siblings_or_templates_have_no_such_rows(tmp_path: Path, params: Params) -> None:
    shown = report(written(tmp_path, params, siblings=False, templates=False), params)
    assert "with siblings" not in shown
    assert "templates" not in shown


def test_templates_and_operations_have_rows_and_the_hardest_templates_are_named(layout: Layout, params: Params) -> None:
    for name, right in (("before", 100), ("after", 120)):
        changes = [{"operations": 1 + i % 2, "seen": True, "template": f"story-{i // 40}"} for i in range(200)]
        own = [o.model_copy(update=change) for o, change in zip(outcomes(right), changes, strict=True)]
        write_evaluation(layout, params, name, own)
    for title in ("  1 operation ", "  2 operations"):
        (row,) = (line for line in report(layout, params).splitlines() if line.startswith(title))
        assert [cell for cell in row.split() if "." in cell][::2][:2] == ["0.500", "0.600"]
    hardest = (
        "Hardest templates, of those seen, pass@1 sampled: story-3 0.05, story-4 0.05, story-0 0.90; all: run/plots/"
    )
    assert hardest in prose(layout, params)


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [
        (("composition",), ["  new compositions"]),
        (("composition", "phrasing"), ["  new templates", "  new phrasings", "  new compositions"]),
    ],
    ids=len,
)
def test_each_kind_of_new_problems_has_a_row_and_a_single_kind_only_one(
    layout: Layout, params: Params, kinds: tuple[str, ...], rows: list[str]
) -> None:
    for name, right in (("before", 100), ("after", 120)):
        own = [
            o.model_copy(update={"novelty": None if o.seen else kinds[i % 8 // 4 % len(kinds)]})
            for i, o in enumerate(outcomes(right))
        ]
        write_evaluation(layout, params, name, own)
    shown = report(layout, params)
    assert [line.split("  0.")[0].rstrip() for line in shown.splitlines() if line.strip().startswith("new ")] == rows
    assert shown.count("(") == shown.count(")"), "no cell is cut"


def test_solved_problems_that_rest_on_one_answer_are_counted(layout: Layout, params: Params) -> None:
    add(layout, "search", 3, solved=62, solved_by_siblings=20, solved_by_agreement=11, solved_by_one_answer=31)
    found = "31 of 62 solved problems rest on one answer alone: no siblings with other answers, and no second workflow"
    assert found in prose(layout, params)
    add(layout, "search", 3, solved_by_one_answer=0)
    assert "rest on one answer" not in report(layout, params)


def test_problems_that_were_not_searched_are_counted(layout: Layout, params: Params) -> None:
    assert "Train problems searched" not in report(layout, params)
    for number, (problems, left_out) in enumerate([(300, 0), (210, 90), (180, 120)], start=1):
        add(layout, "search", number, problems=problems, left_out=left_out)
    found = prose(layout, params)
    assert "Train problems searched, by round: 300, 210, 180; " in found
    assert "left out, beyond curriculum.problems or groups: 0, 90, 120." in found


def test_faults_that_validation_finds_with_the_rewards_are_reported(layout: Layout, params: Params) -> None:
    assert "Validation finds" not in report(layout, params)  # it was not asked
    for number in (1, 2, 3):
        add(layout, "select", number, fault_share=0.0)
    assert "Validation finds no fault with the rewards: no sample was dropped" in report(layout, params)
    for number, share in ((1, 0.25), (2, 0.375), (3, 1.0)):
        add(layout, "select", number, measured_share=share)
    assert "its influence; % of the samples that were measured, by round: 25, 38, 100." in prose(layout, params)
    add(layout, "select", 3, fault_share=0.314)
    found = "finds fault with the rewards of samples, which were dropped; % by round: 0, 0, 31."
    assert found in prose(layout, params)


@pytest.fixture
def measure(layout: Layout, make_trajectory: Callable[..., RewardedTrajectory]) -> Callable[..., None]:
    """measure(2, codes): round 2, whose influence rises from workflow to workflow, positive from the fourth on."""

    def write(number: int, codes: list[str]) -> None:
        group = make_trajectory("p", [i / len(codes) for i in range(len(codes))])
        write_rewarded(layout.trajectories(number), [changed_group(group, code=codes)])
        influences = [2e-5 * (i - 2.5) for i in range(len(codes))]
        write_jsonl(layout.selection(number), selected_by_influence(group, influences))

    return write


def influence_section(shown: str) -> str:
    return shown[shown.index("influence of") : shown.index("stage     times")].rstrip()


def test_influence_is_shown_for_the_last_round_that_measured_it(
    layout: Layout,
    params: Params,
    measure: Callable[..., None],
    make_trajectory: Callable[..., RewardedTrajectory],
) -> None:
    unmeasured = selected_by_influence(make_trajectory("p", [0.0] * 20), [None] * 20)
    write_jsonl(layout.selection(3), unmeasured)
    assert "influence" not in report(layout, params)
    for number in (1, 2):
        measure(number, [f"{HEADER}    a = n[0] * {i}\n    return a\n" for i in range(20)])
    assert influence_section(report(layout, params)) == INFLUENCE
    shown = influence_section(report(layout, recorded_in(params, "")))
    assert shown.endswith("Of every sample: run/rounds/2/selection.jsonl.")


def test_each_workflow_takes_one_line_of_80_columns(
    layout: Layout, params: Params, measure: Callable[..., None]
) -> None:
    codes = ["x = [red]\n" * 50, "\x1b[2J\r\n" * 9, "", "y" * 500, "a = n[x]\n\n\tif a:\n\t\treturn a", "return 1"]
    measure(3, codes)
    section = influence_section(report(layout, params))
    assert len(section.splitlines()) == 12
    assert "x = [red]; x = [red]; x = [red]; x = [red] …" in section
    assert "a = n[x]; if a:; return a" in section
    assert "\x1b" not in section


LOCAL, SERVER = "sqlite:///mlflow.db", "http://127.0.0.1:5000"


@pytest.mark.parametrize(
    ("uri", "line"),
    [(LOCAL, LOCAL), (SERVER, SERVER), ("", "off (machine.tracking.uri is empty)")],
)
def test_the_report_names_the_store_of_mlflow(layout: Layout, params: Params, uri: str, line: str) -> None:
    shown = report(layout, recorded_in(params, uri))
    assert [text.split(maxsplit=1)[1] for text in shown.splitlines() if text.startswith("MLflow")] == [line]


def test_samples_that_are_all_alike_are_reported(layout: Layout, params: Params) -> None:
    assert "pass@10 is pass@1" not in report(layout, params)
    alike = [o.model_copy(update={"correct": o.samples * (o.correct > 1), "wrong": []}) for o in outcomes(120)]
    write_json(layout.metrics("evaluate", "after"), summarise(alike, params.evaluation, params.seed))
    assert "pass@10 is pass@1 (0.600): all samples of a problem are right or all are" in report(layout, params)


def test_a_term_that_is_the_same_for_every_completion_is_named_with_its_rounds(layout: Layout, params: Params) -> None:
    assert "teaches nothing" not in report(layout, params)
    for number, spread in ((1, 0.0), (2, 0.1), (3, 0.0)):
        add(layout, "reward", number, runs__mean=1.0, runs__std=spread)
    shown = prose(layout, params)
    assert shown.count("teaches nothing") == 1
    assert "Round 1, 3: rewards.runs is 1 for every completion: it teaches nothing" in shown


def test_a_collapse_is_named_with_its_rounds(layout: Layout, params: Params) -> None:
    for number in (2, 3):
        add(layout, "collect", number, commonest_share=0.99)
        add(layout, "update", number, entropy=0.03)
    shown = prose(layout, params)
    assert (
        "Round 2, 3: 99% of the completions, over all problems, are the same one: lower update.learning_rate" in shown
    )
    assert "Round 2, 3: the entropy of a token is 0.030" in shown


def test_the_change_of_each_of_several_terms_is_reported(layout: Layout, params: Params) -> None:
    for number, mark in ((1, 0.25), (3, 0.4375)):
        terms = {"correctness__mean": 0.5, "correctness__std": 0.1, "mark__mean": mark, "mark__std": 0.1}
        add(layout, "reward", number, **terms)
    found = "Terms of the reward, round 1 → 3: correctness 0.500 → 0.500, mark 0.250 → 0.438."
    assert found in prose(layout, params)


def test_the_best_round_is_named_and_each_rounds_dev_score_shown(layout: Layout, params: Params) -> None:
    assert "dev pass@1" not in report(layout, params)
    for number, numbers in ((1, {}), (2, {"pass_at_1": 0.5125}), (3, {"pass_at_1": 0.5})):
        write_json(layout.metrics("validate", number), numbers)
    reason = "round 2 has the highest pass@1 on 80 dev problems: 0.512"
    write_json(layout.best, Choice(round=2, version="v", reason=reason))
    write_jsonl(layout.standings(3), [])
    shown = report(layout, changed(params, "evaluation", every=2))
    assert "kept  dev pass@1" in shown
    rows = [line.split() for line in shown.splitlines() if line[:2] in ("1 ", "2 ", "3 ")]
    assert [row[-1] for row in rows] == ["%", "0.512", "0.500"]
    assert "Best: round 2 has the highest pass@1 on 80 dev problems: 0.512." in shown


def test_a_reward_and_a_dev_score_that_do_not_move_are_reported(tmp_path: Path, params: Params) -> None:
    more = changed(rounds(params, 4), "evaluation", every=1)
    layout = written(tmp_path, more)
    same = {"version": "v", "policy_sha256": "d", "samples": 20, "correct": [4, 8, 12, 16] * 5}
    write_jsonl(layout.standings(4), [Standing(round=number, **same) for number in range(1, 5)])
    write_json(layout.best, Choice(round=1, version="v", reason="of equals the first"))
    for number in range(1, 5):
        write_json(layout.metrics("validate", number), {"pass_at_1": 0.5})
        level = {"epoch__mean_reward": 0.5, "mean_reward_error": 0.01, "correctness__std": 0.4}
        add(layout, "reward", number, groups=9, groups_with_signal=number - 1, **level)
    shown = prose(layout, more)
    unmoved = "has not moved since round 1 (0.500, 0.500, 0.500, 0.500): none differs by more than"
    assert f"pass@1 on dev {unmoved}" in shown
    assert f"The mean reward {unmoved}" in shown
    assert "Round 1: no group has two different rewards, so none teaches anything; raise search.temperature" in shown


def test_rewards_that_spread_as_before_and_earn_no_more_are_remarked_on(layout: Layout, params: Params) -> None:
    for number, mean in ((1, 0.5), (2, 0.5), (3, 0.51)):
        add(layout, "reward", number, epoch__mean_reward=mean, mean_reward_error=0.01, epoch__reward_std=0.45)
    assert (
        "The deviation of the rewards has not fallen from round 1 to 3 (0.450 → 0.450), nor has their mean risen by "
        "more than chance (0.500 → 0.510): the updates hardly change what the policy writes; raise update.learning_rate"
    ) in prose(layout, params)
    add(layout, "reward", 3, epoch__mean_reward=0.6)
    assert "deviation of the rewards" not in prose(layout, params)


def test_a_histogram_that_is_none_is_named(layout: Layout, params: Params) -> None:
    write_text(layout.reward_histogram(3), "low,high\n0,1\n")
    with pytest.raises(GraftError, match=r"reward@3\.csv: no histogram \('completions'\); run graft stage reward@3"):
        report(layout, params)


def test_a_missing_file_is_named(layout: Layout, params: Params) -> None:
    layout.metrics("reward", 2).unlink()
    with pytest.raises(GraftError, match=r"reward@2\.json"):
        report(layout, params)


SNAPSHOT = """\
200 test problems  before             after              change
───────────────────────────────────────────────────────────────────────────────
pass@1 greedy      0.500 (0.43–0.56)  0.600 (0.53–0.67)  +0.100 (+0.06 … +0.14)
  seen templates   0.500 (0.42–0.58)  0.600 (0.52–0.67)  +0.100 (+0.05 … +0.15)
  new templates    0.500 (0.36–0.64)  0.600 (0.46–0.73)  +0.100 (+0.02 … +0.20)
  with siblings    0.450 (0.39–0.52)  0.550 (0.48–0.62)  +0.100 (+0.06 … +0.14)
pass@1 sampled     0.475 (0.42–0.53)  0.560 (0.50–0.62)  +0.085 (+0.05 … +0.12)
pass@5 sampled     0.625 (0.57–0.68)  0.700 (0.65–0.75)  +0.075 (+0.04 … +0.10)
pass@10 sampled    0.750 (0.71–0.79)  0.800 (0.77–0.83)  +0.050 (+0.03 … +0.07)
maj@5 sampled      0.500 (0.43–0.57)  0.600 (0.53–0.67)  +0.100 (+0.06 … +0.14)
maj@10 sampled     0.500 (0.43–0.57)  0.600 (0.54–0.67)  +0.100 (+0.06 … +0.14)
invalid samples    0.050              0.050              +0.000
cut samples        0.000              0.000              +0.000
pass@k and maj@k without bias from 20 samples at temperature 0.8; in brackets
intervals of 95 % over the problems: bootstrap, and Wilson's for the levels of
fewer than 100.

round  samples  mean reward  deviation  accumulated  solved  kept
─────────────────────────────────────────────────────────────────
1         2400        0.600      0.450       1200.5    90 %  61 %
2         2400        0.700      0.450       1200.5    90 %  61 %
3         2400        0.800      0.450       1200.5    90 %  61 %
rewards of round 1  0 █         ▂        █ 1
rewards of round 3  0 ▃         ▁        █ 1

stage     times  seconds
───────────────────────────────────────
problems      1      0.1         cached
search        2     42.5  1 of 2 cached
evaluate      2     17.0

all           5     59.6

promoted: 0.600 beats the first policy's 0.500 by 0.100 (95 % interval 0.060 …
0.145)

policy      run/policy
workflows   run/rounds/3/workflows
tree        run/rounds/3/tree.svg
evaluation  run/evaluation/after
page        run/page.html
champion    none yet
MLflow      sqlite:///mlflow.db
pages       graft ui"""

INFLUENCE = """\
influence of 20 samples  < -2.6e-04         ▄▂│▂▄▂▄▂▄▂▄▂█ ≥ +2.6e-04

round 2  influence  reward  kept  workflow
─────────────────────────────────────────────────────────
most 1   +3.3e-04   0.950   yes   a = n[0] * 19; return a
most 2   +3.1e-04   0.900   yes   a = n[0] * 18; return a
most 3   +2.9e-04   0.850   yes   a = n[0] * 17; return a
least 1  -5.0e-05   0.000   no    a = n[0] * 0; return a
least 2  -3.0e-05   0.050   no    a = n[0] * 1; return a
least 3  -1.0e-05   0.100   no    a = n[0] * 2; return a
Of every sample: run/rounds/2/selection.jsonl; the 10 most and 10 least with
their code: MLflow, select@2, influence.json."""
