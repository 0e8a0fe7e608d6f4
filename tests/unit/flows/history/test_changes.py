"""Changes that a scheduled run reports: all that a person can make, and none that a run makes itself."""

import json
import shutil
from pathlib import Path

import pytest

from flows.history.changes import RunInputs, describe_changes, read_scheduled_inputs, scheduled_base
from flows.stages.user_files import CHAMPION
from tasks.layout import Layout
from tasks.params.file import load_params, override
from tasks.problems.digests import ProblemFile, digest_problem_files, problems_tag
from tests.support.champions import promote
from tests.support.stage_params import REPOSITORY


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Params as shipped with a folder of one file of problems; the sources are links to the real ones."""
    shutil.copy(REPOSITORY / "params.yaml", tmp_path)
    for name in ("tasks", "flows", "dvc.yaml"):
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
    return read_scheduled_inputs(layout, load_params(layout.root / "params.yaml"))


def changes(layout: Layout, before: RunInputs | None) -> list[str]:
    return describe_changes(before, seen(layout))


def test_inputs_are_read_back_as_they_were_written(layout: Layout) -> None:
    before = seen(layout)
    assert RunInputs.model_validate_json(before.model_dump_json()) == before
    assert before.problems == {"data/a.jsonl": ProblemFile(sha256=before.problems["data/a.jsonl"].sha256, problems=3)}
    assert changes(layout, before) == []


def test_the_first_run_says_so(layout: Layout) -> None:
    assert changes(layout, None) == ["the first scheduled run here, of 3 problems in 1 file (data/a.jsonl)"]
    change(layout.root, "problems.source=environment")
    assert changes(layout, None) == ["the first scheduled run here"]


def test_changes_of_problems_are_listed_by_file(layout: Layout) -> None:
    data, before = layout.root / "data", seen(layout)
    write_problems(data / "b.jsonl", 120)
    assert changes(layout, before) == ["120 new problems in 1 new file (data/b.jsonl)"]
    before = seen(layout)
    write_problems(data / "a.jsonl", 5)
    (data / "b.jsonl").unlink()
    fewer = "120 problems fewer, without 1 file (data/b.jsonl)"
    assert changes(layout, before) == ["data/a.jsonl changed, 3 → 5 problems", fewer]
    before = seen(layout)
    for name in "cdef":
        write_problems(data / f"{name}.jsonl", 2)
    assert changes(layout, before) == ["8 new problems in 4 new files"]


def test_a_param_is_listed_with_both_values_and_a_changed_file_without(layout: Layout) -> None:
    before, module = seen(layout), layout.root / "manners.py"
    change(layout.root, "update.beta=0.05", "rewards.own=[]")
    assert changes(layout, before) == ["update.beta 0.01 → 0.05"]
    module.write_text("def polite(problem, text, results):\n    return 1\n")
    change(layout.root, 'rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]')
    before = seen(layout)
    module.write_text("def polite(problem, text, results):\n    return 0\n")
    assert changes(layout, before) == ["other content of rewards.own"]


@pytest.mark.parametrize(
    "assignment", ["machine.tracking.experiment=other", "machine.schedule.retries=0", "machine.schedule.overlap=skip"]
)
def test_params_of_no_stage_are_not_listed(layout: Layout, assignment: str) -> None:
    before = seen(layout)
    change(layout.root, assignment)
    assert changes(layout, before) == []


def test_sources_of_stages_are_listed_and_others_are_not(layout: Layout) -> None:
    before, root = seen(layout), layout.root
    for name in ("tasks", "flows"):
        (root / name).unlink()
        shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    assert changes(layout, before) == []
    (root / "flows" / "reports" / "terminal.py").write_text("# another report\n")
    assert changes(layout, before) == []
    losses = root / "tasks" / "objective" / "losses.py"
    losses.write_text(losses.read_text() + "# another remark\n")
    assert changes(layout, before) == ["other source in 1 file (tasks/objective/losses.py)"]


def test_its_own_promotion_is_no_change(layout: Layout) -> None:
    """A promotion changes the champion, then `policy.base`."""
    before = seen(layout)
    for version in ("v1", "v2"):
        promote(layout, version=version)
        assert changes(layout, before) == []
        change(layout.root, f"policy.base={CHAMPION}")
        assert changes(layout, before) == []


@pytest.mark.parametrize(
    ("name", "found"),
    [("run/rounds/1/examples.jsonl", []), ("mine.jsonl", ["other content of policy.prompt.file"])],
)
def test_a_file_is_listed_unless_the_run_writes_it(layout: Layout, name: str, found: list[str]) -> None:
    file = layout.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("one\n")
    change(layout.root, f"policy.prompt.file={name}")
    before = seen(layout)
    file.write_text("two\n")
    assert changes(layout, before) == found


def test_a_run_starts_from_the_champion_of_the_base_that_is_named(layout: Layout) -> None:
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
    assert changes(layout, before) == ["policy.base scratch → someone/model"]
    promote(layout, base="someone/model")
    assert base() == CHAMPION
    assert changes(layout, before) == ["policy.base scratch → someone/model"]


def test_the_tag_depends_on_the_name_and_content_of_every_file(layout: Layout) -> None:
    params, data = load_params(layout.root / "params.yaml"), layout.root / "data"
    assert digest_problem_files(layout.root, params)["data/a.jsonl"].problems == 3
    tags = [problems_tag(layout.root, params)]
    (data / "a.jsonl").rename(data / "b.jsonl")
    tags.append(problems_tag(layout.root, params))
    write_problems(data / "b.jsonl", 4)
    tags.append(problems_tag(layout.root, params))
    assert len({tag["problems_sha256"] for tag in tags}) == 3
    change(layout.root, "problems.source=environment")
    assert problems_tag(layout.root, load_params(layout.root / "params.yaml")) == {}
