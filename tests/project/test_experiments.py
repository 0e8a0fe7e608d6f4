"""DVC's experiments on the project's own stages: run at once, queued, shown, compared and applied."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.stages.dvc_yaml import parse
from tests.support.tiny_project import ADDRESSES, EVALUATE, dvc, graft, ran, run, state_of

pytestmark = pytest.mark.slow

HEADLINE = ["greedy", "before", "change", "low", "high", "promoted", "sampled", "pass@10"]


class Tried(NamedTuple):
    """A committed run, an experiment that was queued, and one that was run in its folder and lies there still."""

    root: Path
    queued: str
    direct: str


@pytest.fixture(scope="module")
def tried(by_graft: Path, tmp_path_factory: pytest.TempPathFactory) -> Tried:
    root = tmp_path_factory.mktemp("experiments") / "project"
    shutil.copytree(by_graft, root)
    for setting in (("user.name", "t"), ("user.email", "t@t")):
        run(root, "git", "config", *setting)
    run(root, "git", "add", "-A")
    run(root, "git", "commit", "-qm", "run")
    dvc(root, "exp", "run", "-q", "--queue", "-n", "beta", "-S", "update.beta=0.05")
    assert ran(root) == []
    dvc(root, "exp", "run", "-q", "--run-all")
    assert ran(root) == []  # it was computed in a folder of its own
    assert run(root, "git", "status", "--porcelain").stdout == ""
    dvc(root, "exp", "run", "-q", "-n", "ks", "-S", "evaluation.ks=[1,2]")
    assert ran(root) == EVALUATE
    return Tried(root, "beta", "ks")


def test_the_headline_fits_into_a_terminal_of_120_columns(tried: Tried) -> None:
    """Nothing else that a stage measures is a column of `dvc metrics` and `dvc exp show`."""
    shown = dvc(tried.root, "metrics", "show").stdout.splitlines()
    assert set(shown[0].split()) == {"Path", *HEADLINE}
    assert [line.split()[0] for line in shown[1:]] == ["run/metrics.json"]
    changed = dvc(tried.root, "metrics", "diff", "HEAD", tried.queued).stdout.splitlines()
    assert 2 <= len(changed) <= 1 + len(HEADLINE)
    # The pager shows the first columns. Only a project with a queue has these two.
    table = dvc(tried.root, "exp", "show", "--drop", "State|Executor").stdout.splitlines()
    names = next(line for line in table if "Experiment" in line)[:120].split()
    assert names[: 2 + len(HEADLINE)] == ["Experiment", "Created", *HEADLINE]
    assert max(map(len, [*shown, *changed])) <= 120


def test_what_is_applied_is_as_if_it_had_been_run_here(tried: Tried, tmp_path: Path) -> None:
    root = shutil.copytree(tried.root, tmp_path / "project")
    dvc(root, "exp", "apply", tried.queued)
    assert parse(root / "params.yaml")["update"]["beta"] == 0.05
    printed = graft(root, "stage", *ADDRESSES).stdout.splitlines()
    assert [line.split()[:2] for line in printed] == [[address, "unchanged"] for address in ADDRESSES]
    assert ran(root) == []


def test_rounds_and_lists_are_written_as_graft_reads_them(tried: Tried, tmp_path: Path) -> None:
    root = shutil.copytree(tried.root, tmp_path / "project")
    dvc(root, "exp", "run", "-q", "-S", "rounds.last=3", "-S", "+rounds.start.3=2", "-S", "evaluation.ks=[1,5,10]")
    assert {a for a in ran(root) if a.endswith("@3")} == {
        f"{s}@3" for s in ("search", "collect", "reward", "select", "update", "validate")
    }
    told = graft(root, "stage", "search", "choose").stdout.splitlines()
    assert [line.split()[:2] for line in told] == [[f"search@{n}", "unchanged"] for n in (1, 2, 3)] + [
        ["choose", "unchanged"]
    ]


def test_an_experiment_in_a_worktree_of_git_leaves_the_first_tree_as_it_is(done: Path, tmp_path: Path) -> None:
    tree, before = tmp_path / "tree", state_of(done)
    ran(done)
    run(done, "git", "worktree", "add", "-q", str(tree))
    dvc(tree, "cache", "dir", "--local", str(done / ".dvc" / "cache"))
    dvc(tree, "exp", "run", "-q", "-n", "tried", "-S", "evaluation.temperature=0.5")
    assert ran(tree) == EVALUATE  # the others are in the cache
    assert (ran(done), state_of(done)) == ([], before)
    dvc(done, "exp", "apply", "tried")
    assert parse(done / "params.yaml")["evaluation"]["temperature"] == 0.5
