"""Surroundings that a run cannot work in end it with a line that names the thing and the remedy; others do no harm."""

import subprocess
import sys
from pathlib import Path

import pytest

from flows.prefect_runs.server_address import REMEDY
from flows.stages.dvc_yaml import parse
from tests.support.small_disk import mounted
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import EVALUATE, begin, environment, graft, ran, run

DEAD = "http://127.0.0.1:9/api"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text", "variables", "told"),
    [
        (".env", f"PREFECT_API_URL={DEAD}", {}, f"graft: prefect: no answer from {DEAD}; {REMEDY}"),
        ("prefect.toml", "[api\n", {}, "prefect.toml: invalid TOML"),
        ("notes", "", {"ALL_PROXY": "socks5://127.0.0.1:9"}, "ALL_PROXY: a SOCKS proxy needs a package: pip install"),
        ("notes", "", {"PREFECT_API_REQUEST_TIMEOUT": "soon"}, "REQUEST_TIMEOUT: should be a valid number, not 'soon'"),
    ],
)
def test_settings_of_prefect_that_cannot_be_used_are_named(
    done: Path, file: str, text: str, variables: dict[str, str], told: str
) -> None:
    """In a file of the project's folder, or in a variable; a line of Prefect's own may precede ours."""
    (done / file).write_text(text)
    ended = graft(done, "retrain", code=2, PREFECT_CLIENT_MAX_RETRIES="1", **variables)
    assert ran(done) == []
    assert told in ended.stderr.splitlines()[-1]


def test_a_full_folder_of_temporary_files_is_named(done: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "full", "-t", "tmpfs", "-o", "size=4k", "tmpfs") as folder:
        line = graft(done, "stage", "problems", code=2, TMPDIR=str(folder)).stderr
    assert line.startswith(f"graft: TMPDIR: {folder}: No space left on device; free some space there")


def test_a_question_mark_in_the_projects_path_is_refused(by_graft: Path, tmp_path: Path) -> None:
    """Prefect's database would be outside of the project."""
    root = tmp_path / "why?"
    run(tmp_path, "cp", "-r", str(by_graft), str(root))
    assert "question mark; rename it" in graft(root, "status", code=2).stderr


def test_results_that_are_linked_to_another_place_are_refused_with_the_way_to_have_that(
    done: Path, tmp_path: Path
) -> None:
    (done / "run").rename(tmp_path / "elsewhere")
    (done / "run").symlink_to(tmp_path / "elsewhere")
    line = graft(done, "stage", "problems", "-S", "problems.train=7", code=2).stderr
    assert "run: a link to another place, which DVC refuses" in line
    assert "dvc cache dir PATH" in line


def test_sources_have_the_same_line_ends_in_every_checkout(tmp_path: Path) -> None:
    """Git of Windows writes CRLF otherwise, and sources are inputs of stages."""
    repository = Path(__file__).parents[2]
    origin = tmp_path / "origin"
    origin.mkdir()
    for name in (".gitattributes", "params.yaml"):
        (origin / name).write_bytes((repository / name).read_bytes())
    run(origin, "git", "init", "-q")
    run(origin, "git", "add", "-A")
    run(origin, "git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "t")
    run(tmp_path, "git", "-c", "core.autocrlf=true", "clone", "-q", str(origin), "copy")
    assert (tmp_path / "copy" / "params.yaml").read_bytes() == (origin / "params.yaml").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    nightly_but_first(
        [
            {"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"},
            {"PREFECT_API_URL": "", "PREFECT_HOME": "", "PREFECT_SERVER_API_PORT": " "},
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            {"PYTHONIOENCODING": "ascii"},
        ]
    ),
)
def test_others_do_no_harm(done: Path, variables: dict[str, str]) -> None:
    """In a process of its own: locale and encoding of the output are settled when Python starts."""
    with (done / "params.yaml").open("a", encoding="utf-8") as stream:
        stream.write("# é, in a line that a diff to the last commit shows\n")
    command = [sys.executable, "-m", "flows.cli.main", "retrain", "-S", "evaluation.temperature=0.5"]
    ended = subprocess.run(command, cwd=done, env=environment(**variables), capture_output=True, timeout=400)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ran(done) == EVALUATE
    assert b"report: 20 stages" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("stage", nightly_but_first(["promote", "choose"]))
def test_a_lock_file_that_is_removed_during_a_stage_is_written_as_it_was(
    done: Path, prefect_api: str, stage: str
) -> None:
    """Not begun anew from that stage on: its entries would stay in that order."""
    where = {"PREFECT_API_URL": prefect_api}
    entries = list(parse(done / "dvc.lock")["stages"])
    process = begin(done, stage, "retrain", "-S", "evaluation.temperature=0.5", TINY_SECONDS="3", **where)
    (done / "dvc.lock").unlink()
    _, told = process.communicate(timeout=300)
    assert (process.returncode, told.count("\n")) == (0, 1)
    assert told.endswith("dvc.lock: was removed during this run; it is there again, as it was\n")
    assert ran(done) == EVALUATE
    assert list(parse(done / "dvc.lock")["stages"]) == entries
    assert "ran" not in graft(done, "retrain", **where).stdout.split()
    assert ran(done) == []
