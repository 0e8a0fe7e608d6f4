"""`graft compare`, on runs that lie in folders, in files, in the history and in DVC."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.history.run_history import lock_digest, write_entry
from flows.reports.compare_command import compare as compare_runs
from flows.reports.html.page import write_page
from flows.reports.publish import publish_page
from flows.reports.run_lookup import find_run
from flows.reports.run_record import read_run_record
from tasks.artifacts import read_jsonl, write_json, write_jsonl
from tasks.core.console import PlainConsole
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.records.evaluation import ProblemOutcome
from tasks.records.problems import Problem
from tasks.tracking.recorder import Recorder
from tests.support import finished_run
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY
from tests.support.tiny_project import commit, dvc, run
from tests.support.valid_files import ENTRY

GRAFT = "import os, sys; from flows.cli.main import main; os.chdir(sys.argv.pop(1)); main()"


def compare(project: Path, *names: str, html: str | None = None) -> str:
    """What `graft compare …` prints to someone who stands in `project`."""
    stream = io.StringIO()
    with contextlib.chdir(project):
        compare_runs(names, project, Path(html) if html else None, PlainConsole(file=stream, width=80))
    return stream.getvalue()


def refused(project: Path, *names: str, html: str | None = None) -> str:
    with pytest.raises(GraftError) as error:
        compare(project, *names, html=html)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    finished_run.write(tmp_path / "first")
    others = ("update.beta=0.05", "rewards.runs=0.1", 'machine.tracking.uri=""')
    finished_run.write(tmp_path / "second", seed=1, skill=0.9, assignments=others)
    return tmp_path


def test_two_folders_side_by_side_and_on_a_page(runs: Path) -> None:
    asked = [sys.executable, "-c", GRAFT, str(runs), "compare", "first", "second", "--html", "pages/compared.html"]
    told = subprocess.run(asked, cwd=REPOSITORY, env={**os.environ, "COLUMNS": "80"}, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    lines = [line.rstrip() for line in told.stdout.splitlines()]
    assert lines[:8] == FIRST_LINES
    greedy = "pass@1 greedy 0.542 0.833 +0.292 (+0.00 … +0.54) 0.092"
    assert greedy in [" ".join(line.split()) for line in lines]
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "The page: pages/compared.html"
    assert "2 runs on 24 test problems" in (runs / "pages" / "compared.html").read_text()
    assert sorted(path.name for path in runs.iterdir()) == ["first", "pages", "second"]


def test_names_are_folded_or_a_table_parted_before_a_number_is_cut(runs: Path) -> None:
    names = ["first", "second", "third"]
    shutil.copytree(runs / "second", runs / "third")
    for seed, name in enumerate(names):
        override(runs / name / "params.yaml", [f"policy.base=models/{name * 5}", f"seed={seed}"])
        for path in (runs / name).glob("run/evaluation/*/outcomes.jsonl"):
            outcomes = read_jsonl(path, ProblemOutcome)
            write_jsonl(path, [o.model_copy(update={"novelty": "composition"}) for o in outcomes[:12]] + outcomes[12:])
    lines = compare(runs, *names).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("pass@1 greedy new composition") for line in lines) == 2
    assert any("< 0.001" in line for line in lines)
    cut = [line for line in lines if "…" in line.replace(" … ", " ")]
    assert [line.split()[0] for line in cut] == ["policy.base"] * 2
    assert [line.split()[-2:] for line in lines if line.startswith("params that")] == [["A", "B"], ["differ", "C"]]
    assert [line.split()[1:] for line in lines if line.startswith("seed ")] == [["0", "1"], ["2"]]


def test_one_run_alone_has_a_page_and_one_file_is_enough(runs: Path) -> None:
    assert compare(runs, "first", html="alone.html").startswith("\n24 test problems")
    assert "A run of 2 rounds on 24 test problems" in (runs / "alone.html").read_text()
    write_page(Layout(runs / "second"))
    shutil.copy(runs / "second" / "run" / "account.json", runs / "kept.json")
    by_folder, by_file = (compare(runs, "first", name) for name in ("second", "kept.json"))
    assert by_folder.replace("B  second", "") == by_file.replace("B  kept.json", "")


def test_what_cannot_be_compared_is_told_in_one_line(runs: Path) -> None:
    for names, html, told in (
        (["first"], None, "first: one run alone; name another to compare it with, or --html FILE for its page"),
        (["first", "third"], None, "third: no such run; name a folder with run/ in it, an account.json, a DVC experi"),
        (["first", "."], None, "no finished run, run/promotion.json is missing; run graft retrain there"),
        (["first"] * 9, None, "9 runs are more than can be told apart; name at most 8"),
        (["first", "first/params.yaml"], None, "first/params.yaml: Invalid JSON"),
        (["first", "second"], "second", "--html second: is a folder; name a file"),
        (["first", "second"], "first/params.yaml/page", "a file is in the way of its folder; name another place"),
        (["first", "second"], "/proc/page.html", "--html /proc/page.html: cannot be written (No such file"),
        (["first", "second"], "p" * 300, "ppp…: cannot be written (File name too long); name another place"),
        (["first", "second"], "/dev/null", "--html /dev/null: is a device or a pipe; name a file"),
        (["a" * 100_000], None, "aaa…: one run alone; name another"),
        (["first", "a" * 100_000], None, "aaa…: no such run; name a folder"),
        (["first", "9" * 5000], None, "999…: no such run; name a folder"),
    ):
        assert told in refused(runs, *names, html=html)
    path = Layout(runs / "second").problems("test")
    write_jsonl(path, read_jsonl(path, Problem)[:-1])
    assert "first and second: tested on different problems" in refused(runs, "first", "second", html="page.html")
    assert not (runs / "page.html").exists()


@pytest.mark.parametrize("commits", [False, True])
def test_a_name_that_git_does_not_take_is_no_run(runs: Path, commits: bool) -> None:
    """Nor is any name, before the first commit."""
    project = runs / "second"
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    dvc(project, "init", "-q")
    if commits:
        commit(project, "one")
    for name in ("1", "a" * 100_000):
        told = refused(project, name, html="page.html")
        assert told.partition(": ")[2].startswith("no such run; name a folder with run/ in it")
        assert len(told) < 400


def test_runs_are_found_by_their_number_and_shown_by_their_name(runs: Path) -> None:
    project, layout = runs / "second", Layout(runs / "second")
    lock = b"schema: '2.0'\n"
    (project / "dvc.lock").write_bytes(lock)
    made = {"dvc_lock_md5": lock_digest(lock), "number": 12, "name": "12 · beta 0.05 · 0.300 → 0.900"}
    entry = ENTRY.model_copy(update=made)
    write_entry(project, entry)
    write_entry(project, entry.model_copy(update={"number": 13, "name": "13 · seed 1", "dvc_lock_md5": None}))
    publish_page(layout, Recorder(layout, load_params(project / "params.yaml"), {}), 12)
    lines = compare(project, "12", ".", str(runs / "first")).splitlines()
    assert lines[:3] == [f"A  {entry.name}", f"B  . ({entry.name})", f"C  {runs / 'first'}"]
    shutil.rmtree(project / "run")
    (project / "dvc.lock").unlink()
    assert f"A  {entry.name}\n" in compare(project, "12", str(runs / "first"))
    assert "13 · seed 1: " in (told := refused(project, "13", "12"))
    assert "accounts/13.json is missing; name its folder" in told
    assert "14: no such run" in refused(project, "14", "12")


STAGE = """\
stages:
  promote:
    cmd: >-
      mkdir -p run && cp -r "$(grep -q 'beta: 0.05' params.yaml && echo second || echo first)"/run/* run
    deps: [first, second]
    params: [update, rounds.last]
    outs: [run/evaluation, run/problems, run/rounds, run/plots, run/promotion.json]
    metrics: [run/metrics]
"""


@pytest.fixture
def versioned(runs: Path) -> Path:
    """A project under git and DVC whose one stage brings a run: the first, or with another beta the second."""
    project = runs / "project"
    project.mkdir()
    for name in ("first", "second"):
        shutil.move(runs / name, project / name)
    shutil.copy(project / "first" / "params.yaml", project)
    (project / "dvc.yaml").write_text(STAGE)
    (project / ".gitignore").write_text("/run\n/mlflow.db*\n")
    run(project, "git", "init", "-q")
    dvc(project, "init", "-q")
    commit(project, "nothing computed")
    return project


@pytest.mark.slow
def test_commits_and_experiments_are_runs(versioned: Path) -> None:
    told = refused(versioned, "first", "HEAD")
    assert "HEAD: no complete run at this revision (dvc.lock is not in it); commit dvc.lock after a run" in told

    write_json(Layout(versioned / "first").audit(1), finished_run.make_audit("err"))
    dvc(versioned, "repro", "-q")
    commit(versioned, "a run")
    dvc(versioned, "exp", "run", "-q", "-n", "stronger", "-S", "update.beta=0.05")
    dvc(versioned, "checkout", "-q", "--force")
    shutil.rmtree(versioned / "run")

    assert find_run("HEAD", versioned)[1] == read_run_record(Layout(versioned / "first"))
    told = compare(versioned, "HEAD", "stronger")
    assert "update.beta         0.01  0.05" in told
    expected = compare(versioned, "first", "second")
    assert told[told.index("24 test") :] == expected[expected.index("24 test") :]
    assert not (versioned / "run").exists()

    shutil.rmtree(versioned / ".dvc" / "cache")
    assert "stronger: no complete run at this revision (run/promotion.json is missing)" in refused(
        versioned, "first", "stronger"
    )


FIRST_LINES = [
    "A  first",
    "B  second",
    "",
    "params that differ  A     B",
    "──────────────────────────────",
    "rewards.runs        0.0   0.1",
    "update.beta         0.01  0.05",
    "",
]
