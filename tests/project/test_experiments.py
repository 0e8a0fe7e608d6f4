"""DVC's experiments on the project's own stages: run at once, queued, shown, compared and applied.

And `dvc plots` with the project's own settings, which work without a network.
"""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.stages.dvc_yaml import parse
from tasks.artifacts import write_json
from tasks.layout import Layout
from tests.support import finished_run
from tests.support.browser import browser, needed
from tests.support.stage_params import REPOSITORY
from tests.support.tiny_project import ADDRESSES, EVALUATE, commit, dvc, graft, ran, run, state_of

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


PLOTS = """\
stages:
  update:
    cmd: echo there
    plots:
      - run/plots/update@1.csv: {x: step, y: loss}
      - run/rounds/1/tree.svg
    metrics:
      - run/metrics/evaluate@after.json
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run under git and DVC, and in the working tree the same with another pass@1."""
    root = tmp_path_factory.mktemp("plots") / "project"
    finished_run.write(root, rounds=1)
    (root / "dvc.yaml").write_text(PLOTS)
    (root / ".gitignore").write_text("/run\n")
    run(root, "git", "init", "-q")
    dvc(root, "init", "-q")
    for name in ("config", "plots.html"):
        shutil.copy(REPOSITORY / ".dvc" / name, root / ".dvc")
    dvc(root, "commit", "-q", "--force")
    commit(root)
    write_json(Layout(root).metrics("evaluate", "after"), {"pass_at_1": 0.875})
    return root


@needed
def test_plots_are_drawn_and_nothing_is_asked_of_the_network(project: Path, tmp_path: Path) -> None:
    dvc(project, "plots", "show", "-o", str(tmp_path / "plots"))
    page = tmp_path / "plots" / "index.html"
    assert re.findall(r"src=[\"']?https?:[^>]*", page.read_text()) == []
    with browser(tmp_path / "profile") as seen:
        seen.open(page)
        assert seen.requested == [page.as_uri(), *(p.as_uri() for p in (page.parent / "static").iterdir())]
        drawn = "new Promise(tell => { const look = () => document.querySelector('.vega-embed canvas, .vega-embed svg')"
        drawn += " ? tell(true) : setTimeout(look, 50); look(); })"
        assert seen.value(drawn)
        assert seen.value("document.querySelector('.vega-embed canvas').width") > 100
        assert seen.value("document.querySelector('img').naturalWidth") > 0
        assert seen.complaints == []


def test_the_page_brings_the_versions_that_dvc_names() -> None:
    from dvc_render.vega import VegaRenderer

    named = set(re.findall(r"npm/([\w-]+@[\d.]+)", VegaRenderer.SCRIPTS))
    assert len(named) == 3
    assert named == set(
        re.findall(r"\b(vega[\w-]*@\d[\d.]*\d)", (REPOSITORY / ".dvc" / "plots.html").read_text()[:600])
    )
