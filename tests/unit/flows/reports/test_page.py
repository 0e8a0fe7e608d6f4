"""What the page of a run holds, read as text; `test_page_in_browser.py` looks at it."""

import base64
import re
from pathlib import Path

from flows.reports.comparison import Side, make_sides
from flows.reports.html import content
from flows.reports.html.page import render_page, write_page
from flows.reports.publish import summary_of
from flows.reports.run_record import Example, GreedyCompletion, RunRecord, read_run_record
from tasks.artifacts import read_json, write_json
from tasks.core.metrics_files import read_metrics
from tasks.records.selection import REMEDY, AuditShare
from tests.support import finished_run


def record(root: Path, **changes: object) -> RunRecord:
    return read_run_record(finished_run.write(root)).model_copy(update=changes)


def example(name: str, before: bool, after: bool) -> Example:
    greedy = [GreedyCompletion(completion="b", outcome="1", right=right) for right in (before, after)]
    return Example(problem_id=name, question="?", answer=1, before=greedy[0], after=greedy[1])


def test_the_same_run_gives_the_same_bytes_in_every_folder(tmp_path: Path) -> None:
    first, second = finished_run.write(tmp_path / "here"), finished_run.write(tmp_path / "there" / "too")
    for layout in (first, second):
        assert write_page(layout).decision == "not promoted: a lead that may be chance"
    assert first.page.read_bytes() == second.page.read_bytes()
    assert first.account.read_bytes() == second.account.read_bytes()
    assert read_json(first.account, RunRecord) == read_run_record(first)


def test_the_summary_has_the_decision_and_what_was_measured(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    before, after = (read_metrics(layout, f"evaluate@{when}")["pass_at_5"] for when in ("before", "after"))
    decision, nothing, *table = summary_of(write_page(layout)).splitlines()
    assert (decision, nothing) == ("not promoted: a lead that may be chance", "")
    assert table[:2] == ["| 24 test problems | before | after | change |", "| --- | --- | --- | --- |"]
    measures = ["pass@1 greedy", "pass@1 sampled", "pass@5 sampled", "pass@10 sampled"]
    assert [row.split(" | ")[0].removeprefix("| ") for row in table[2:]] == measures
    assert table[4].startswith(f"| pass@5 sampled | {before:.3f} | {after:.3f} | {after - before:+.3f} (")


def test_the_page_says_that_failures_are_not_learned_from(tmp_path: Path) -> None:
    said = "failures are not learned from (update.negative_weight 0)"
    for number, (assignments, expected) in enumerate(
        {("update.negative_weight=0",): True, ("update.negative_weight=0.5",): False, ("algorithm=ppo",): False}.items()
    ):
        layout = finished_run.write(tmp_path / str(number), assignments=assignments)
        assert (said in render_page(make_sides([("this run", read_run_record(layout))]))) is expected


def test_the_audit_of_the_rewards_is_on_the_page_and_in_the_summary(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    assert 'id="audit"' not in render_page(make_sides([("this run", read_run_record(layout))]))
    share = AuditShare(name="<t>", contradicted=0.9, excess=0.8)
    audit = finished_run.make_audit("err", templates=[share])
    write_json(layout.audit(1), audit)
    record = write_page(layout)
    page = layout.page.read_text()
    assert "Audit of the rewards" in page
    assert f"{audit.sentence.replace(chr(39), '&#39;')}; most in &lt;t&gt;" in page
    assert f"<p>{REMEDY}.</p>" in page
    assert summary_of(record).splitlines()[-3::2] == [f"Round 1: {audit.sentence}.", f"{REMEDY}."]


SELECT = {"samples": 4588, "selected": 4588, "measured": 72, "influence_positive_share": 0.69, "audit_right": 1}


def test_the_page_and_the_summary_say_what_decided_the_selection(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    for number in (1, 2):
        write_json(layout.metrics("select", number), SELECT)
        write_json(layout.audit(number), finished_run.make_audit("right"))
    record = write_page(layout)
    (sentence,) = record.selection_lines
    assert sentence.startswith("Nothing was dropped: the audit found rewards right in all 2 rounds; influence was")
    assert record.audit_lines == []  # the sentence has it
    assert f"<p>{sentence}</p>" in layout.page.read_text()
    assert summary_of(record).splitlines()[-1] == sentence
    assert content.selections(make_sides([("a", record), ("b", record)])) == [f"A: {sentence}", f"B: {sentence}"]


def test_the_samples_of_highest_and_lowest_influence_are_below_the_histogram(tmp_path: Path) -> None:
    known = record(tmp_path)
    assert [end.title for end in content.extremes(make_sides([("a", known)]))] == [
        "highest influence of round 2",
        "lowest influence of round 2",
    ]
    hostile = known.extremes[0].model_copy(update={"completion": "<script>1</script>", "influence": -2e-5})
    page = render_page(make_sides([("a", known.model_copy(update={"extremes": [hostile]}))]))
    assert "influence -2e-05; advantage +1.00; kept</p>" in page
    assert "<pre>&lt;script&gt;1&lt;/script&gt;</pre>" in page
    assert "<script" not in page


def test_the_axis_of_influence_names_its_unit(tmp_path: Path) -> None:
    known = record(tmp_path)
    for changes, is_local in (
        ({"influence.similarity": "local"}, True),
        ({"influence.similarity": "dot"}, False),
        ({"algorithm": "ppo"}, False),
    ):
        own = known.model_copy(update={"params": known.params | changes})
        (chart,) = content.influence(make_sides([("a", own)]))
        title, axis = content.INFLUENCE[is_local]
        assert chart.title == f"round 2: {title}"
        assert f">{axis}</text>" in chart.svg
        assert len(axis) <= 50  # of the width of a chart


def test_the_page_names_no_address_and_has_no_script(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    write_page(layout)
    page = layout.page.read_text()
    assert "default-src 'none'" in page
    assert re.findall(r"https?://(?!www\.w3\.org/)[^\s\"']*", page) == []
    assert "<script" not in page
    assert str(tmp_path) not in page


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    for path in (layout.account, layout.page):
        path.with_name(f".{path.name}.v_q2j5bx").write_text("half")
    write_page(layout)
    assert not list((tmp_path / "run").glob(".*"))


def test_what_was_measured_between_rounds_is_a_dashed_line(tmp_path: Path) -> None:
    known = record(tmp_path)
    between = {f"validate@{n}": {"pass_at_1": n / 4, "pass_at_1_low": 0.1, "pass_at_1_high": 0.9} for n in (1, 2)}
    began = {f"reward@{n}": {"pass_at_1": n / 5} for n in (1, 2)}
    more = known.model_copy(update={"metrics": {**known.metrics, **between, **began}})
    charts = {chart.title: chart.svg for chart in content.pass_at_k([Side("A", "a", more)])}
    assert charts["pass@1 sampled"].count("<polyline") == 3
    assert "validate: 0.5 (0.1 to 0.9) at 2" in charts["pass@1 sampled"]
    assert "train: 0.4 at 1" in charts["pass@1 sampled"]  # round 2 began with the policy of round 1
    assert charts["pass@1 sampled"].count('class="line c0 dashed"') == 2
    assert charts["pass@5 sampled"].count("<polyline") == 1


def test_a_run_without_results_of_rounds_has_a_page(tmp_path: Path) -> None:
    known = record(tmp_path, steps={}, rewards={}, influence=[], influence_round=None, tree=None, examples=[])
    few = {address: numbers for address, numbers in known.metrics.items() if address.startswith("evaluate")}
    page = render_page(make_sides([("a", known.model_copy(update={"metrics": few}))]))
    assert page.count("Not measured.") == 3
    assert "Not drawn." in page


def test_each_term_has_a_chart_with_a_line_for_each_run_that_has_it(tmp_path: Path) -> None:
    first, second = record(tmp_path / "a"), record(tmp_path / "b")
    fewer = {a: {n: x for n, x in own.items() if not n.startswith("runs")} for a, own in second.metrics.items()}
    second = second.model_copy(update={"metrics": fewer})
    charts = content.rewards(make_sides([("a", first), ("b", second)]))
    lines = {chart.title: chart.svg.count("<polyline") for chart in charts if "<polyline" in chart.svg}
    assert lines == {"reward": 2, "deviation of the reward": 2, "correctness": 2, "runs": 1}


def test_the_rewards_of_the_first_and_the_last_round_have_a_histogram(tmp_path: Path) -> None:
    known = read_run_record(finished_run.write(tmp_path / "a", rounds=3))
    charts = {chart.title: chart.svg for chart in content.rewards(make_sides([("a", known)])) if "<rect" in chart.svg}
    assert list(charts) == ["rewards of round 1", "rewards of round 3"]
    assert "0.95 to 1: 2 completions" in charts["rewards of round 3"]
    older = known.model_copy(update={"rewards": {}})  # a record of a version without histograms
    assert not any("<rect" in chart.svg for chart in content.rewards(make_sides([("a", older)])))


def test_curves_of_steps_fill_their_rounds(tmp_path: Path) -> None:
    known = record(tmp_path, rounds=2, steps={"1": {"kl": [0.1, None, 0.3, 0.4]}, "2": {"kl": [0.5]}})
    (chart,) = content.updates([Side("A", "a", known)])
    assert re.findall(r"at ([\d.]+)</title>", chart.svg) == ["0.25", "0.75", "1", "2"]


def test_ten_problems_are_shown_of_each_kind_in_turn(tmp_path: Path) -> None:
    kinds = {"right": (9, True, True), "wrong": (9, False, False), "gained": (9, False, True), "lost": (1, True, False)}
    examples = [example(f"{kind}{i}", *both) for kind, (count, *both) in kinds.items() for i in range(count)]
    cards = content.cards([Side("A", "a", record(tmp_path, examples=examples))])
    shown = "gained0 lost0 wrong0 right0 gained1 wrong1 right1 gained2 wrong2 right2"
    assert [card.example.problem_id for card in cards] == shown.split()
    assert list(cards[0].cells) == ["before", "after"]


def test_equal_completions_before_are_shown_once(tmp_path: Path) -> None:
    alike = record(tmp_path, examples=[example("p", False, True)])
    other = alike.model_copy(update={"examples": [example("p", True, True)]})
    separate = ["A, before", "A, after", "B, before", "B, after"]
    for second, titles in ((alike, ["before", "A, after", "B, after"]), (other, separate)):
        (card,) = content.cards(make_sides([("a", alike), ("b", second)]))
        assert list(card.cells) == titles


def test_all_that_a_user_names_is_escaped(tmp_path: Path) -> None:
    known = record(tmp_path)
    params = {**known.params, "<i>name": "<i>value"}
    other = known.model_copy(update={"params": params, "decision": "<i>won"})
    page = render_page(make_sides([("<i>run", known), ("b", other)]))
    assert "<i>" not in page
    for text in ("run", "name", "value", "won"):
        assert f"&lt;i&gt;{text}" in page


def test_measures_and_pictures_of_an_environment_are_shown(tmp_path: Path) -> None:
    known = record(tmp_path)
    assert "measures of the environment" not in render_page(make_sides([("a", known)]))
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    drawn = example("p", False, True)
    drawn = drawn.model_copy(update={"after": drawn.after.model_copy(update={"picture": svg})})
    measured = {
        f"evaluate@{when}": known.metrics[f"evaluate@{when}"] | numbers
        for when, numbers in (
            ("before", {"measure/p_legal/sampled": 0.25}),
            ("after", {"measure/p_legal/sampled": 0.5}),
        )
    }
    measured["evaluate@after"] |= {"measure/half_moves/greedy": 3.5, "operations_per_sample": 1.5}
    own = known.model_copy(update={"examples": [drawn], "metrics": known.metrics | measured})
    page = render_page(make_sides([("a", own)]))
    assert "<tr><th>p legal sampled</th><td>0.250</td><td>0.500</td></tr>" in page
    assert "<tr><th>half moves greedy</th><td>–</td><td>3.500</td></tr>" in page
    assert "<tr><th>operations</th><td>–</td><td>1.500</td></tr>" in page
    assert page.count('alt="picture of this completion"') == 1
    assert "alert(1)" not in page  # an image, in base64
    assert base64.b64encode(svg.encode()).decode() in page


def test_the_gain_of_a_warm_start_is_told_apart_from_that_of_the_rounds(tmp_path: Path) -> None:
    layout = finished_run.write(tmp_path)
    assert "warm start" not in render_page(make_sides([("this run", read_run_record(layout))]))
    finished_run.add_base(layout, chance=0.1)
    record = write_page(layout)
    assert read_json(layout.account, RunRecord) == record
    page = layout.page.read_text()
    for titles in ("base, warm start, after", "warm start, after, change", "base, warm start, change"):
        assert "".join(f"<th>{title}</th>" for title in ("measure", *titles.split(", "))) in page
    lines = summary_of(record).splitlines()
    assert lines[2] == "| 24 test problems | warm start | after | change |"
    at = lines.index("| measure | base | warm start | after |")
    levels = [read_metrics(layout, f"evaluate@{when}") for when in ("before", "before", "after")]
    names = ("base/pass_at_1_greedy", "pass_at_1_greedy", "pass_at_1_greedy")
    cells = lines[at + 2].removesuffix(" |").split(" | ")[1:]
    assert [cell.split()[0] for cell in cells] == [f"{m[n]:.3f}" for m, n in zip(levels, names, strict=True)]
    assert all("–" in cell for cell in cells)
