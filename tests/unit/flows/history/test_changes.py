"""Changes that the name of a run and a scheduled run report: all that a person can make, and none that a run makes."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from flows.history.changes import (
    RunInputs,
    list_changes,
    overrides,
    read_scheduled_inputs,
    scheduled_base,
    summarise_change,
)
from flows.history.run_history import run_name
from flows.stages.user_files import CHAMPION
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.problems.digests import ProblemFile, digest_problem_files, problems_tag
from tests.support.champions import promote
from tests.support.params_file import override
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


def changes(layout: Layout, before: RunInputs | None) -> str:
    return summarise_change(before, seen(layout))


def test_inputs_are_read_back_as_they_were_written(layout: Layout) -> None:
    before = seen(layout)
    assert RunInputs.model_validate_json(before.model_dump_json()) == before
    assert before.problems == {"data/a.jsonl": ProblemFile(sha256=before.problems["data/a.jsonl"].sha256, problems=3)}
    assert changes(layout, before) == ""


def test_changes_of_problems_are_counted(layout: Layout) -> None:
    assert changes(layout, None) == "first run"
    data, before = layout.root / "data", seen(layout)
    write_problems(data / "b.jsonl", 120)
    now = seen(layout)
    assert summarise_change(before, now) == "problems 3 → 123"
    (data / "b.jsonl").rename(data / "d.jsonl")
    assert changes(layout, now) == "other problems"


PARAMS = {
    "update.learning_rate": "0.001",
    "bootstrap.learning_rate": "0.002",
    "update.beta": "0.01",
    "rounds.last": "3",
    "rounds.start.3": "2",
    "policy.base": "scratch",
    "rewards.own": "[]",
    "seed": "0",
}
FILES = {"policy.base": "1", "rewards.own": "1"}


def inputs(files: dict[str, str] = FILES, **params: str) -> RunInputs:
    named = {key.replace("__", "."): value for key, value in params.items()}
    return RunInputs(problems={}, params=PARAMS | named, sources={"tasks/a.py": "1"}, files=files)


MANY = {"seed": "1", "update__beta": "0", "rounds__last": "4", "update__learning_rate": "1"}


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (inputs(), ""),
        (inputs(update__beta="0.05"), "beta 0.05"),
        (inputs(update__learning_rate="0.0005"), "update.learning_rate 0.0005"),
        (inputs(rounds__last="4", rounds__start__4="3"), "rounds 4"),
        (inputs(bootstrap__learning_rate="2", **MANY), "bootstrap.learning_rate 2, rounds 4, seed 1, +2"),
        (inputs(policy__base="someone/model", files=FILES | {"policy.base": "2"}), "base someone/model"),
        (inputs(files=FILES | {"rewards.own": "2"}), "other own"),
        (inputs(rewards__own="[" + "x" * 99), "own [xxxxxxxxxxxxxxxxxxxxxx…"),
    ],
)
def test_params_are_named_in_the_fewest_words_that_are_unambiguous(now: RunInputs, change: str) -> None:
    assert summarise_change(inputs(), now) == change


def test_all_that_differs_is_listed_with_whole_names() -> None:
    now = inputs(files=FILES | {"rewards.own": "2"}, **MANY)
    assert list_changes(inputs(), now) == (
        "rounds.last=4, seed=1, update.beta=0, update.learning_rate=1, other rewards.own"
    )


def test_a_name_is_completed_by_the_result() -> None:
    assert run_name(12, "beta 0.05") == "12 · beta 0.05"
    assert run_name(12, "beta 0.05", {"before": 0.4951, "greedy": 0.575}) == "12 · beta 0.05 · 0.495 → 0.575"


def test_params_of_no_stage_and_other_sources_are_not_listed(layout: Layout) -> None:
    before, root = seen(layout), layout.root
    for name in ("tasks", "flows"):
        (root / name).unlink()
        shutil.copytree(REPOSITORY / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "flows" / "reports" / "terminal.py").write_text("# another report\n")
    change(root, "machine.tracking.experiment=other", "machine.schedule.retries=0")
    assert changes(layout, before) == ""
    losses = root / "tasks" / "objective" / "losses.py"
    losses.write_text(losses.read_text() + "# another remark\n")
    assert changes(layout, before) == "other source"


def test_its_own_promotion_is_no_change(layout: Layout) -> None:
    """A promotion changes the champion, then `policy.base`."""
    before = seen(layout)
    for version in ("v1", "v2"):
        promote(layout, version=version)
        assert changes(layout, before) == ""
        change(layout.root, f"policy.base={CHAMPION}")
        assert changes(layout, before) == ""


def test_a_file_is_listed_unless_the_run_writes_it(layout: Layout) -> None:
    """One that it writes is the champion, above."""
    (layout.root / "mine.jsonl").write_text("one\n")
    change(layout.root, "policy.prompt.file=mine.jsonl")
    before = seen(layout)
    (layout.root / "mine.jsonl").write_text("two\n")
    assert changes(layout, before) == "other file"


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
    assert changes(layout, before) == "base someone/model"
    promote(layout, base="someone/model")
    assert base() == CHAMPION
    assert changes(layout, before) == "base someone/model"


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


def git(root: Path, *arguments: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *author, *arguments], cwd=root, check=True, capture_output=True)


def test_only_what_differs_from_the_commit_is_listed(tmp_path: Path) -> None:
    project = tmp_path / "a project inside a repository"
    project.mkdir()
    path = Path(shutil.copy(REPOSITORY / "params.yaml", project))
    override(path, ["seed=3"])
    assert overrides(project, load_params(path)) == ""  # there is no commit to compare with
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "params")
    assert overrides(project, load_params(path)) == ""
    override(path, ["seed=4", "rounds=2", "machine.tracking.uri=sqlite:///mlflow.db"])
    assert overrides(project, load_params(path)) == "rounds.last=2 seed=4"
