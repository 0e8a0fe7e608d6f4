import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from flows.reports.terminal import print_report
from tasks.artifacts import write_json, write_jsonl, write_text
from tasks.errors import GraftError
from tasks.evaluation.summary import summarise
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.params.sections import Rounds
from tasks.programs.contract import HEADER
from tasks.records import Choice, Problem, ProblemOutcome, Promotion, Result, RewardedTrajectory, Selected, Standing

SHIPPED = Path(__file__).parents[4] / "params.yaml"
SECONDS = {"problems": 0.1, "search@1": 20.0, "search@2": 22.5, "evaluate@before": 9.0, "evaluate@after": 8.0}


@pytest.fixture
def params() -> Params:
    """The shipped ones with three rounds."""
    return load_params(SHIPPED).model_copy(update={"rounds": Rounds(last=3, start={"1": 0, "2": 1, "3": 2})})


def outcomes(right: int, siblings: bool, templates: bool) -> list[ProblemOutcome]:
    """200 problems of which the first `right` are solved."""
    return [
        ProblemOutcome(
            problem_id=f"p{i}",
            template="t" if templates else None,
            seen=i % 4 != 0 if templates else None,
            greedy=i < right,
            siblings_passed=(i < right - 10) if siblings else None,
            samples=20,
            correct=18 if i < right else 1,
            invalid=1,
            timeouts=0,
            distinct=4,
            wrong=[1] if i < right else [10, 8],
        )
        for i in range(200)
    ]


def written(root: Path, params: Params, siblings: bool = True, templates: bool = True) -> Layout:
    """The files of a run, as far as the report reads them."""
    layout = Layout(root)
    for name, right in (("before", 100), ("after", 120)):
        own = outcomes(right, siblings, templates)
        write_jsonl(layout.evaluation(name) / "outcomes.jsonl", own)
        write_json(layout.metrics("evaluate", name), summarise(own, params.evaluation, params.seed))
    for number in range(1, params.rounds.last + 1):
        reward = {"epoch/mean_reward": 0.5 + number / 10, "epoch/accumulated_reward": 1200.5, "solved_share": 0.9}
        write_json(layout.metrics("reward", number), reward)
        write_json(layout.metrics("select", number), {"selected_share": 0.61})
        write_json(layout.metrics("search", number), {"solved": 60 + number})
        write_jsonl(layout.selection(number), [])
    decision = Promotion(
        promoted=True,
        reason="promoted: 0.600 beats the first policy's 0.500 by 0.100 (95 % interval 0.060 … 0.145)",
        pass_at_1=0.6,
        champion_pass_at_1=0.5,
        difference=0.1,
        low=0.06,
        high=0.145,
        version="abc",
        champion_version=None,
    )
    write_json(layout.promotion, decision)
    return layout


def report(layout: Layout, params: Params, cached: set[str] | None = None, **terminal: object) -> str:
    """What a console of 80 columns shows, without colours."""
    console = Console(record=True, file=io.StringIO(), width=80, **terminal)  # type: ignore[arg-type]
    print_report(layout, params, SECONDS, cached or set(), console)
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


def test_the_whole_report(tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    layout = written(tmp_path, params)
    write_text(layout.page, "a page")
    assert report(layout, params, {"problems", "search@1"}) == SNAPSHOT


def test_a_page_that_could_not_be_written_is_not_named(tmp_path: Path, params: Params) -> None:
    assert "page.html" not in report(written(tmp_path, params), params)


@pytest.mark.parametrize("terminal", [{"force_terminal": True}, {"force_terminal": False}])
def test_no_line_is_longer_than_80_columns_or_cut(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch, terminal: dict[str, bool]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = report(written(tmp_path, params), params, **terminal)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("(") == shown.count(")")  # rich ends a cell that it cuts with …


def test_problems_without_siblings_or_templates_say_so_and_have_no_such_rows(tmp_path: Path, params: Params) -> None:
    shown = report(written(tmp_path, params, siblings=False, templates=False), params)
    assert "no siblings: correctness rests on one answer each" in shown
    assert "with siblings" not in shown
    assert "templates" not in shown


def test_templates_and_operations_have_rows_and_the_hardest_their_names(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layout = written(tmp_path, params)
    for name, right in (("before", 100), ("after", 120)):
        own = [
            o.model_copy(update={"operations": 1 + i % 2, "seen": True, "template": f"story-{i // 40}"})
            for i, o in enumerate(outcomes(right, True, True))
        ]
        write_jsonl(layout.evaluation(name) / "outcomes.jsonl", own)
        write_json(layout.metrics("evaluate", name), summarise(own, params.evaluation, params.seed))
    shown = report(layout, params)
    for title in ("  1 operation ", "  2 operations"):
        (row,) = (line for line in shown.splitlines() if line.startswith(title))
        assert [cell for cell in row.split() if "." in cell][::2][:2] == ["0.500", "0.600"]
    assert max(map(len, shown.splitlines())) <= 80
    told = "Hardest templates, of those seen, pass@1 sampled: story-3 0.05, story-4 0.05, story-0 0.90; all: run/plots/"
    assert told in " ".join(shown.split())


def test_the_report_says_how_many_solved_problems_rest_on_one_answer(tmp_path: Path, params: Params) -> None:
    layout = written(tmp_path, params)
    support = {"solved": 62, "solved_by_siblings": 20, "solved_by_agreement": 11, "solved_by_one_answer": 31}
    write_json(layout.metrics("search", params.rounds.last), support)
    shown = " ".join(report(layout, params).split())
    assert "31 of 62 solved problems rest on one answer alone: no siblings, and no second workflow" in shown
    write_json(layout.metrics("search", params.rounds.last), {**support, "solved_by_one_answer": 0})
    assert "rest on one answer" not in report(layout, params)


def test_the_report_says_where_validation_finds_fault_with_the_rewards(tmp_path: Path, params: Params) -> None:
    layout = written(tmp_path, params)
    last = params.rounds.last
    selected = json.loads(layout.metrics("select", last).read_text())
    assert "Validation finds" not in report(layout, params)  # it was not asked
    for number in range(1, last + 1):
        write_json(layout.metrics("select", number), selected | {"fault_share": 0.0})
    assert "Validation finds no fault with the rewards: no sample was dropped" in report(layout, params)
    write_json(layout.metrics("select", last), selected | {"fault_share": 0.314})
    shown = " ".join(report(layout, params).split())
    found = ", ".join(["0"] * (last - 1) + ["31"])
    assert f"finds fault with the rewards of samples, which were dropped; % by round: {found}." in shown


def group(codes: list[str]) -> RewardedTrajectory:
    """One problem for which these workflows were written."""
    count = len(codes)
    return RewardedTrajectory(
        problem_id="p",
        split="train",
        problem=Problem(problem_id="p", question="?", answer=1, source="test"),
        prompt="?",
        workflow_codes=codes,
        workflow_ids=[f"w{i}" for i in range(count)],
        proposers=["sample"] * count,
        results=[Result(status="ok", value=1)] * count,
        sibling_results=[[]] * count,
        tokens=[[]] * count,
        logprobs=[[]] * count,
        policy_version="v",
        rewards=[i / count for i in range(count)],
        reward_terms={},
        reward_status=["ok"] * count,
    )


def selected(influences: list[float | None]) -> list[Selected]:
    return [
        Selected(
            problem_id="p",
            member=i,
            workflow_id=f"w{i}",
            advantage=1.0,
            influence=influence,
            gradient_norm=None if influence is None else 1.0,
            selected=(influence or 0) > 0,
        )
        for i, influence in enumerate(influences)
    ]


def measured(layout: Layout, number: int, codes: list[str]) -> None:
    """A round where each workflow is more influential than the one before, and all but the first few help."""
    write_jsonl(layout.rewarded(number), [group(codes)])
    write_jsonl(layout.selection(number), selected([2e-5 * (i - 2.5) for i in range(len(codes))]))


def influence_section(shown: str) -> str:
    return shown[shown.index("influence of") : shown.index("stage     times")].rstrip()


def test_influence_is_told_of_the_last_round_that_measured_it(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layout = written(tmp_path, params)
    codes = [f"{HEADER}    a = n[0] * {i}\n    return a\n" for i in range(20)]
    for number in (1, 2):
        measured(layout, number, codes)
    write_jsonl(layout.selection(3), selected([None] * 20))
    assert influence_section(report(layout, params)) == INFLUENCE
    off = params.model_copy(update={"tracking": params.tracking.model_copy(update={"uri": ""})})
    assert influence_section(report(layout, off)).endswith("Of every sample: run/rounds/2/selection.jsonl.")


def test_where_influence_was_not_measured_nothing_is_told(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layout = written(tmp_path, params)
    write_jsonl(layout.selection(3), selected([None, None]))
    assert "influence" not in report(layout, params)


def test_whatever_a_workflow_is_it_takes_one_line_of_80_columns(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layout = written(tmp_path, params)
    codes = ["x = [red]\n" * 50, "\x1b[2J\r\n" * 9, "", "y" * 500, "a = n[x]\n\n\tif a:\n\t\treturn a", "return 1"]
    measured(layout, 3, codes)
    section = influence_section(report(layout, params))
    assert max(map(len, section.splitlines())) <= 80
    assert len(section.splitlines()) == 12
    assert "x = [red]; x = [red]; x = [red]; x = [red] …" in section
    assert "a = n[x]; if a:; return a" in section
    assert "\x1b" not in section


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        ("sqlite:///mlflow.db", "mlflow ui --backend-store-uri sqlite:///mlflow.db"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("", "off (tracking.uri is empty)"),
    ],
)
def test_the_report_says_how_to_open_mlflow(tmp_path: Path, params: Params, uri: str, line: str) -> None:
    params = params.model_copy(update={"tracking": params.tracking.model_copy(update={"uri": uri})})
    shown = report(written(tmp_path, params), params)
    assert [text.split(maxsplit=1)[1] for text in shown.splitlines() if text.startswith("MLflow")] == [line]


def test_the_report_says_where_samples_are_all_alike(tmp_path: Path, params: Params) -> None:
    layout = written(tmp_path, params)
    assert "pass@10 is pass@1" not in report(layout, params)
    alike = [
        o.model_copy(update={"correct": o.samples * (o.correct > 1), "wrong": []}) for o in outcomes(120, True, True)
    ]
    write_json(layout.metrics("evaluate", "after"), summarise(alike, params.evaluation, params.seed))
    assert "pass@10 is pass@1 (0.600): all samples of a problem are right or all are" in report(layout, params)


def test_the_report_says_which_term_taught_nothing_and_when(tmp_path: Path, params: Params) -> None:
    layout = written(tmp_path, params)
    assert "teaches nothing" not in report(layout, params)
    for number, spread in ((1, 0.0), (2, 0.1), (3, 0.0)):
        known = json.loads(layout.metrics("reward", number).read_text())
        write_json(layout.metrics("reward", number), known | {"runs/mean": 1.0, "runs/std": spread})
    shown = " ".join(report(layout, params).split())
    assert shown.count("teaches nothing") == 1
    assert "Round 1, 3: rewards.runs is 1 for every completion: it teaches nothing" in shown


def test_the_best_round_is_named_beside_what_each_had_on_dev(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    layout = written(tmp_path, params)
    assert "dev" not in report(layout, params)
    every = params.model_copy(update={"evaluation": params.evaluation.model_copy(update={"every": 2})})
    for number, numbers in ((1, {}), (2, {"pass_at_1": 0.5125}), (3, {"pass_at_1": 0.5})):
        write_json(layout.metrics("validate", number), numbers)
    write_json(
        layout.best, Choice(round=2, version="v", reason="round 2 has the highest pass@1 on 80 dev problems: 0.512")
    )
    write_jsonl(layout.standings(3), [])
    shown = report(layout, every)
    assert "samples kept  dev pass@1" in shown
    rows = [line.split() for line in shown.splitlines() if line[:2] in ("1 ", "2 ", "3 ")]
    assert [row[-1] for row in rows] == ["%", "0.512", "0.500"]
    assert "Best: round 2 has the highest pass@1 on 80 dev problems: 0.512." in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_report_says_where_neither_reward_nor_dev_moves(tmp_path: Path, params: Params) -> None:
    more = params.model_copy(
        update={
            "rounds": Rounds(last=4, start={"1": 0, "2": 1, "3": 2, "4": 3}),
            "evaluation": params.evaluation.model_copy(update={"every": 1}),
        }
    )
    layout = written(tmp_path, more)
    standings = [
        Standing(round=number, version="v", policy_sha256="d", samples=20, correct=[4, 8, 12, 16] * 5)
        for number in range(1, 5)
    ]
    write_jsonl(layout.standings(4), standings)
    write_json(layout.best, Choice(round=1, version="v", reason="of equals the first"))
    for number in range(1, 5):
        write_json(layout.metrics("validate", number), {"pass_at_1": 0.5})
        reward = {
            "epoch/mean_reward": 0.5,
            "epoch/accumulated_reward": 9,
            "solved_share": 0.9,
            "mean_reward_error": 0.01,
        }
        write_json(
            layout.metrics("reward", number),
            reward | {"correctness/std": 0.4, "groups": 9, "groups_with_signal": number - 1},
        )
    shown = " ".join(report(layout, more).split())
    assert "pass@1 on dev has not moved since round 1 (0.500, 0.500, 0.500, 0.500): none differs by more than" in shown
    assert (
        "The mean reward has not moved since round 1 (0.500, 0.500, 0.500, 0.500): none differs by more than" in shown
    )
    assert "Round 1: no group has two different rewards, so none teaches anything; raise search.temperature" in shown


def test_a_missing_file_is_named(tmp_path: Path, params: Params) -> None:
    layout = written(tmp_path, params)
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
pass@k and maj@k without bias from 20 samples at temperature 0.8; in brackets
intervals of 95 % over the problems: bootstrap, and Wilson's for the levels of
fewer than 100.

round  mean reward  accumulated reward  train solved  samples kept
──────────────────────────────────────────────────────────────────
1            0.600              1200.5          90 %          61 %
2            0.700              1200.5          90 %          61 %
3            0.800              1200.5          90 %          61 %

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
MLflow      mlflow ui --backend-store-uri sqlite:///mlflow.db"""

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


def test_the_report_says_how_far_each_of_several_terms_went(tmp_path: Path, params: Params) -> None:
    layout = written(tmp_path, params)
    for number, form in ((1, 0.25), (3, 0.4375)):
        path = layout.metrics("reward", number)
        terms = {"correctness/mean": 0.5, "correctness/std": 0.1, "mark/mean": form, "mark/std": 0.1}
        write_json(path, json.loads(path.read_text()) | terms)
    told = "Terms of the reward, round 1 → 3: correctness 0.500 → 0.500, mark 0.250 → 0.438."
    assert told in " ".join(report(layout, params).split())


def test_an_answer_needs_no_siblings(tmp_path: Path, params: Params) -> None:
    layout = written(tmp_path, params, siblings=False)
    assert "have no siblings" in " ".join(report(layout, params).split())
    answers = params.model_copy(update={"environment": "answer"})
    assert "have no siblings" not in " ".join(report(layout, answers).split())
