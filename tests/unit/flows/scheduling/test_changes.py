"""What a scheduled run takes for news: all that a person could have changed, and nothing that a run did itself."""

import json
import shutil
from pathlib import Path

import pytest

from flows.preflight import CHAMPION
from flows.scheduling.changes import RunInputs, describe_changes, read_inputs, scheduled_base
from tasks.layout import Layout
from tasks.params.file import load_params, override
from tasks.problems.digests import ProblemFile, digest_problem_files, problems_tag
from tests.support.champions import promote

REPOSITORY = Path(__file__).parents[4]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Params as shipped with a folder of one file of problems; the sources are links to the real ones."""
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    for name in ("tasks", "flows"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    (tmp_path / "data").mkdir()
    write_problems(tmp_path / "data" / "a.jsonl", 3)
    change(tmp_path, "problems.source=jsonl", "problems.path=data")
    return Layout(tmp_path)


def write_problems(path: Path, count: int) -> None:
    lines = [json.dumps({"question": f"{path.stem} {n} + 1?", "answer": n + 1}) for n in range(count)]
    path.write_text("\n".join(lines) + "\n\n")


def change(root: Path, *assignments: str) -> None:
    override(root / "params.yaml", assignments)


def seen(layout: Layout) -> RunInputs:
    return read_inputs(layout, load_params(layout.root / "params.yaml"))


def test_nothing_changed_is_no_news(layout: Layout) -> None:
    assert describe_changes(seen(layout), seen(layout)) == []


def test_the_first_run_says_so(layout: Layout) -> None:
    assert describe_changes(None, seen(layout)) == [
        "the first scheduled run here, of 3 problems in 1 file (data/a.jsonl)"
    ]
    change(layout.root, "problems.source=generated")
    assert describe_changes(None, seen(layout)) == ["the first scheduled run here"]


def test_problems_are_told_by_their_files(layout: Layout) -> None:
    before = seen(layout)
    write_problems(layout.root / "data" / "b.jsonl", 120)
    assert describe_changes(before, seen(layout)) == ["120 new problems in 1 new file (data/b.jsonl)"]
    before = seen(layout)
    write_problems(layout.root / "data" / "a.jsonl", 5)
    (layout.root / "data" / "b.jsonl").unlink()
    assert describe_changes(before, seen(layout)) == [
        "data/a.jsonl changed, 3 → 5 problems",
        "120 problems fewer, without 1 file (data/b.jsonl)",
    ]
    before = seen(layout)
    for name in "cdef":
        write_problems(layout.root / "data" / f"{name}.jsonl", 2)
    assert describe_changes(before, seen(layout)) == ["8 new problems in 4 new files"]


def test_a_param_is_told_with_both_values_and_a_digest_without(layout: Layout) -> None:
    before = seen(layout)
    change(layout.root, "grpo.beta=0.05", "rewards.own=[]")
    assert describe_changes(before, seen(layout)) == ["grpo.beta 0.01 → 0.05"]
    (layout.root / "manners.py").write_text("def polite(problem, text, results):\n    return 1\n")
    change(layout.root, 'rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]')
    before = seen(layout)
    (layout.root / "manners.py").write_text("def polite(problem, text, results):\n    return 0\n")
    assert describe_changes(before, seen(layout)) == ["other content of rewards.own"]


@pytest.mark.parametrize("assignment", ["tracking.experiment=other", "schedule.retries=0", "schedule.overlap=skip"])
def test_what_no_stage_sees_is_no_news(layout: Layout, assignment: str) -> None:
    before = seen(layout)
    change(layout.root, assignment)
    assert describe_changes(before, seen(layout)) == []


def test_sources_of_stages_are_news_and_others_are_not(layout: Layout) -> None:
    before = seen(layout)
    root = layout.root
    for name in ("tasks", "flows"):
        (root / name).unlink()
        shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    assert describe_changes(before, seen(layout)) == []
    (root / "flows" / "reports" / "terminal.py").write_text("# another report\n")
    assert describe_changes(before, seen(layout)) == []
    losses = root / "tasks" / "objective" / "losses.py"
    losses.write_text(losses.read_text() + "# another remark\n")
    assert describe_changes(before, seen(layout)) == ["other source in 1 file (tasks/objective/losses.py)"]


def test_its_own_promotion_is_no_news(layout: Layout) -> None:
    """It changes the champion, then `policy.base` and its digest."""
    before = seen(layout)
    for version in ("v1", "v2"):
        promote(layout, version=version)
        assert describe_changes(before, seen(layout)) == []
        change(layout.root, f"policy.base={CHAMPION}", f"policy.base_sha256={version}")
        assert describe_changes(before, seen(layout)) == []


@pytest.mark.parametrize("name", ["run/rounds/1/rewarded.jsonl", "mine.jsonl"])
def test_a_file_that_the_runs_write_is_no_news_and_one_of_your_own_is(layout: Layout, name: str) -> None:
    file = layout.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("one\n")
    change(layout.root, "influence.validation=trajectories", f"influence.trajectories={name}")
    before = seen(layout)
    file.write_text("two\n")
    assert describe_changes(before, seen(layout)) == (
        [] if name.startswith("run/") else ["other content of influence.trajectories"]
    )


def test_it_starts_from_the_champion_of_the_base_that_is_named(layout: Layout) -> None:
    def base() -> str:
        return scheduled_base(layout, load_params(layout.root / "params.yaml"))

    assert base() == "scratch"
    promote(layout)
    assert base() == CHAMPION
    change(layout.root, f"policy.base={CHAMPION}")
    assert base() == CHAMPION
    before = seen(layout)
    change(layout.root, "policy.base=someone/model")  # a person wants another start
    assert base() == "someone/model"
    assert describe_changes(before, seen(layout)) == ["policy.base scratch → someone/model"]
    promote(layout, base="someone/model")
    assert base() == CHAMPION
    assert describe_changes(before, seen(layout)) == ["policy.base scratch → someone/model"]


def test_the_tag_is_of_every_file_by_name_and_content(layout: Layout) -> None:
    params = load_params(layout.root / "params.yaml")
    first = problems_tag(layout.root, params)
    assert digest_problem_files(layout.root, params)["data/a.jsonl"].problems == 3
    (layout.root / "data" / "a.jsonl").rename(layout.root / "data" / "b.jsonl")
    second = problems_tag(layout.root, params)
    write_problems(layout.root / "data" / "b.jsonl", 4)
    third = problems_tag(layout.root, params)
    assert len({tag["problems_sha256"] for tag in (first, second, third)}) == 3
    change(layout.root, "problems.source=generated")
    assert problems_tag(layout.root, load_params(layout.root / "params.yaml")) == {}


def test_what_was_seen_is_read_back_as_it_was(layout: Layout) -> None:
    before = seen(layout)
    assert RunInputs.model_validate_json(before.model_dump_json()) == before
    assert before.problems == {"data/a.jsonl": ProblemFile(sha256=before.problems["data/a.jsonl"].sha256, problems=3)}
