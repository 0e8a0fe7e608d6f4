"""The page as a reader sees it: in a real browser, without a network, on a desk and on a phone, by day and by night."""

from pathlib import Path

import pytest

from flows.history.run_history import write_entry
from flows.reports.comparison import make_sides
from flows.reports.history import list_nights
from flows.reports.html.month import render_month
from flows.reports.html.page import render_page, write_page
from flows.reports.run_record import read_run_record
from tasks.artifacts import read_jsonl, write_jsonl, write_text
from tasks.layout import Layout
from tasks.records.evaluation import Attempt
from tasks.records.problems import Problem
from tasks.trajectories import Trajectory
from tests.support import finished_run
from tests.support.browser import Page, needed
from tests.support.nights import night
from tests.support.records import make_kept, make_promotion

pytestmark = [needed, pytest.mark.slow]

SECTIONS = ["change", "params", "pass", "rewards", "influence", "updates", "trees", "completions"]
CHARTS = {"pass": 4, "rewards": 6, "influence": 1, "updates": 2}
NASTY = (
    "<script>document.title = 'taken'</script>"
    "<img src='http://192.0.2.1/x' onerror=\"document.title = 'taken'\">\x00\x1b[2J"
)


def attack_trajectory(trajectory: Trajectory) -> Trajectory:
    asked = trajectory.problem.model_copy(update={"question": NASTY + "x" * 3000})
    members = [member.model_copy(update={"code": NASTY + "y" * 3000}) for member in trajectory.members]
    return trajectory.model_copy(update={"problem": asked, "members": members})


def nasty(layout: Layout) -> Layout:
    """The same run, where whatever a person or a model wrote is an attack, and long."""
    problems = read_jsonl(layout.problems("test"), Problem)
    write_jsonl(layout.problems("test"), [p.model_copy(update={"question": NASTY + "x" * 3000}) for p in problems])
    for name in ("before", "after"):
        path = layout.evaluation(name) / "attempts.jsonl"
        write_jsonl(path, [a.model_copy(update={"code": NASTY + "y" * 3000}) for a in read_jsonl(path, Attempt)])
    for path in map(layout.trajectories, (1, 2)):
        write_jsonl(path, [attack_trajectory(t) for t in read_jsonl(path, Trajectory)])
    write_text(layout.tree(2), '<svg xmlns="http://www.w3.org/2000/svg"><script>document.title="taken"</script></svg>')
    return layout


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layout = finished_run.write(tmp_path_factory.mktemp("single"))
    write_page(layout)
    return layout.page


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("several")
    runs = [
        finished_run.write(root / name, seed, 0.5 + seed / 10, 2 + seed, (f"update.beta={seed / 100}",))
        for seed, name in enumerate(["first", "second", "a <b>third</b> of a long, long name"])
    ]
    write_text(root / "page.html", render_page(make_sides([(str(run.root), read_run_record(run)) for run in runs])))
    return root / "page.html"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    layout = nasty(
        finished_run.write(tmp_path_factory.mktemp("attacked"), assignments=(f"policy.base={NASTY[:60]!r}",))
    )
    write_page(layout)
    return layout.page


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five nights, of which every text is an attack."""
    root = tmp_path_factory.mktemp("month")
    kept = [make_kept(name=NASTY), make_kept(lost=False)]
    for number in range(1, 6):
        decision = make_promotion(problems=200, promoted=number % 2 == 0, champion_version="c", kept=kept, reason=NASTY)
        write_entry(
            root, night(number, name=f"{number} · {NASTY} · 0.2 → 0.3", when=NASTY, line=NASTY, decision=decision)
        )
    write_entry(root, night(6, done=False, decision=None, line=NASTY, nothing_new=2, nothing_new_until=NASTY))
    write_text(root / "page.html", render_month(list_nights(Layout(root), 31)))
    return root / "page.html"


def test_all_of_a_run_is_drawn_and_nothing_is_asked_of_the_network(page: Page, single: Path) -> None:
    page.open(single)
    assert page.requested == [single.as_uri()]
    assert page.complaints == []
    assert page.value("[...document.querySelectorAll('section')].map(s => s.id)") == SECTIONS
    for section, count in CHARTS.items():
        drawn = f"[...document.querySelectorAll('#{section} svg')].filter(s => s.getBoundingClientRect().height > 100)"
        assert page.value(f"{drawn}.length") == count
        assert page.value(f"{drawn}.every(s => s.querySelector('polyline, rect').getBoundingClientRect().width > 5)")
    assert page.value("document.querySelectorAll('#completions article').length") == 10
    assert page.value("document.querySelectorAll('#completions pre').length") == 20
    assert page.value("document.querySelector('#trees img').naturalWidth") > 0
    assert (
        page.value("document.querySelectorAll('#change tbody tr').length") == 10
    )  # a row by number of operations among them


@pytest.mark.parametrize("name", ["single", "several", "attacked", "month"])
@pytest.mark.parametrize("width", [320, *(pytest.param(width, marks=pytest.mark.nightly) for width in (390, 1200))])
def test_the_page_fits_its_screen(page: Page, name: str, width: int, request: pytest.FixtureRequest) -> None:
    page.open(request.getfixturevalue(name), width=width)
    assert page.value("window.innerWidth") == width
    assert page.value("document.documentElement.scrollWidth") <= width
    texts = "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)"
    assert min(page.value(texts)) >= 8  # px: not shrunk with the picture
    inside = "[...document.querySelectorAll('svg')].every(s => [...s.querySelectorAll('text')].every(t => "
    inside += "t.getBoundingClientRect().right <= s.getBoundingClientRect().right + 1))"
    assert page.value(inside)


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_bright_by_day_and_dark_by_night(page: Page, several: Path, dark: bool) -> None:
    page.open(several, dark=dark)
    red, green, blue = page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(red, green, blue) < 50) if dark else (min(red, green, blue) > 200)


def test_what_a_model_wrote_is_shown_and_never_run(page: Page, attacked: Path) -> None:
    page.open(attacked)
    assert page.requested == [attacked.as_uri()]
    assert page.value("document.title") == "A run of 2 rounds on 24 test problems: 0.208 → 0.542"
    assert page.value("document.scripts.length") == 0
    for section in ("influence", "completions"):
        for part in ("pre", ".question"):
            assert NASTY[:50] in page.value(f"document.querySelector('#{section} {part}').textContent")
    assert NASTY[:50] in page.value("document.querySelector('#params details').textContent")


def test_the_page_of_a_month_shows_what_a_history_holds_and_runs_none_of_it(page: Page, month: Path) -> None:
    page.open(month)
    assert page.requested == [month.as_uri()]
    assert page.complaints == []
    assert page.value("document.title") == "6 runs, 2 promoted"
    assert page.value("document.scripts.length") == 0
    assert page.value("document.querySelectorAll('#levels polyline').length") == 2
    assert page.value("document.querySelectorAll('#levels polygon').length") == 2
    assert page.value("document.querySelectorAll('#nights tbody tr').length") == 7
    for section in ("nights td:nth-child(3)", "nights tr:nth-last-child(2) td:last-child", "kept p"):
        assert NASTY[:50] in page.value(f"document.querySelector('#{section}').textContent")
