"""What `graft` answers: quickly, in one line, and with nothing written where the input is wrong."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flows.cli.app import app
from tasks.artifacts import write_json
from tasks.programs.operators.model_calls import MODEL_OPERATORS
from tasks.programs.sandbox.run_program import ALL_OPERATORS
from tests.support.tiers import nightly_but_first
from tests.support.tiny_project import dvc, graft, ran, run
from tests.support.valid_files import CHAMPION

HEAVY = {"torch", "transformers", "prefect", "mlflow", "dvc", "scipy", "numpy", "peft"}


def refused(root: Path, *arguments: str) -> str:
    """The one line on stderr, after seeing that nothing was written and nothing ran."""
    params = root / "params.yaml"
    before = params.read_text() if params.exists() else None
    told = graft(root, *arguments, code=2)
    assert told.stderr.startswith("graft: ")
    assert told.stderr.count("\n") == 1
    assert told.stdout == ""
    assert (params.read_text() if params.exists() else None) == before
    assert ran(root) == []
    return told.stderr


def test_a_wrong_assignment_is_named_and_none_is_written(by_graft: Path) -> None:
    """Each mistake: tests/unit/params/test_params.py, tests/unit/flows/test_preflight.py."""
    for assignment, line in (
        ("update.betta=0.1", "params.yaml: no param 'update.betta'; did you mean 'update.beta'?"),
        ("problems.path=none.jsonl", "problems.path: no file none.jsonl; name a jsonl file"),
    ):
        assert line in refused(by_graft, "stage", "problems", "-S", "seed=5", "-S", assignment)


def broken(name: str, old: str, new: str) -> Callable[[Path], object]:
    """Writes a part of a file otherwise."""

    def act(root: Path) -> None:
        text = (root / name).read_text()
        assert old in text
        (root / name).write_text(text.replace(old, new))

    return act


def gone(name: str) -> Callable[[Path], object]:
    return lambda root: (root / name).unlink()


TERMS, TRAJECTORIES = "tasks/reward/builtin_terms.py", "run/rounds/1/trajectories.jsonl"
HARMS: list[tuple[str, Callable[[Path], object], list[str], str]] = [
    *(
        ("params.yaml", broken("params.yaml", "seed: 0", "seed: 0\nsede: 1"), [command], r"yaml:\d+: no param 'sede'")
        for command in ("retrain", "status")
    ),
    ("params.yaml", gone("params.yaml"), ["status"], r"params\.yaml: not in /"),
    ("dvc.yaml", gone("dvc.yaml"), ["status"], r"dvc\.yaml: not in /"),
    ("dvc.yaml", broken("dvc.yaml", "stages:", "stages: ["), ["stage", "problems"], r"dvc\.yaml"),
    (TERMS, broken(TERMS, "WEIGHT = 1\n", "WEIGHT = 1\ndef\n"), ["stage", "reward@1"], rf"{TERMS}:2: not Python"),
    (
        *(TERMS, gone(TERMS), ["stage", "reward@2"]),
        r"tasks/reward/task\.py: imports tasks\.reward\.builtin_terms, which is not there; restore it",
    ),
    (
        *(TRAJECTORIES, gone(TRAJECTORIES), ["stage", "reward@1"]),
        rf"^graft: reward@1: no {TRAJECTORIES}; collect@1 writes it: run graft stage collect@1, or all with ",
    ),
]
"""File, what is done to it, the command that then stops, its line."""


def test_what_is_broken_is_named_before_anything_is_done(done: Path) -> None:
    for name, harm, command, line in HARMS:
        before = (done / name).read_bytes()
        harm(done)
        assert re.search(line, refused(done, *command)), (name, command)
        (done / name).write_bytes(before)
    for folder, line in ((".git", "git init"), (".dvc", "dvc init")):
        (done / folder).rename(done / "put_away")
        assert line in refused(done, "stage", "problems")
        (done / "put_away").rename(done / folder)
    write_json(done / "champion" / "champion.json", CHAMPION)
    expected = "trained in environment workflow, this run's is answer"
    assert expected in refused(done, "retrain", "-S", "environment=answer")
    assert (done / "run/rounds/1/rewards.jsonl").exists()


def test_an_unknown_stage_lists_the_real_ones(by_graft: Path) -> None:
    line = refused(by_graft, "stage", "serch")
    assert "no stage 'serch'" in line
    assert "search@1, search@2" in line


def test_the_code_of_another_folder_is_refused(by_graft: Path) -> None:
    """`graft` of one clone, called in another, would run its own code and record the other's."""
    told = run(by_graft, "graft", "status", code=2)
    assert "this command runs the code in" in told.stderr


def test_help_imports_nothing_heavy(by_graft: Path) -> None:
    for arguments in (["--help"], ["retrain", "--help"], ["--version"]):
        code = (
            f"import sys; sys.argv = ['graft', *{arguments!r}]\n"
            "from flows.cli.main import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code\n"
            "print('imported:', *sorted({name.partition('.')[0] for name in sys.modules}))"
        )
        printed = run(by_graft, "python", "-c", code).stdout
        assert not HEAVY & set(printed.rpartition("imported:")[2].split())


def test_every_command_explains_itself(by_graft: Path) -> None:
    for command in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        explained = CliRunner().invoke(app, [command, "--help"])
        assert explained.exit_code == 0
        assert len(explained.stdout.split()) > 20, command
    assert graft(by_graft, "--version").stdout.startswith("graft 0.")


def test_the_operators_are_listed_with_what_they_do(by_graft: Path) -> None:
    listed = graft(by_graft, "operators").stdout
    for name, function in ALL_OPERATORS.items():
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{name}(")]
        assert line.endswith("[served by a model]") == (name in MODEL_OPERATORS)
        assert (function.__doc__ or "").partition("\n")[0] in listed


def test_a_param_is_written_and_told_once_and_a_group_name_means_each_of_its_rounds(done: Path) -> None:
    told = graft(done, "stage", "reward", "-S", "rewards.runs=0.5", "-S", "seed=0").stdout.splitlines()
    assert told[0] == "params.yaml: rewards.runs: 0.0 → 0.5"
    assert [line.split()[:2] for line in told[1:]] == [["reward@1", "ran"], ["reward@2", "ran"]]
    assert run(done, "git", "diff", "--numstat").stdout == "1\t1\tparams.yaml\n"


def test_a_stage_alone_names_the_stages_it_knows(by_graft: Path) -> None:
    told = run(by_graft, "python", "-m", "flows.stages.run", "serch", code=2)
    assert told.stderr.startswith("graft: name one stage: problems, coldstart, ")


@pytest.mark.parametrize("activated", nightly_but_first(["/usr", ""]))
def test_dvc_finds_the_right_python_whatever_is_activated(done: Path, activated: str) -> None:
    """`.venv/bin/dvc repro` by its path, with a PATH that has no Python of ours."""
    (done / ".venv").symlink_to(sys.prefix)
    told = ["repro", "-q", "--force", "--single-item", "reward@1"]
    run(done, f"{done}/.venv/bin/dvc", *told, PATH="/usr/bin:/bin", VIRTUAL_ENV=activated)
    assert ran(done) == ["reward@1"]
    assert "unchanged" in graft(done, "stage", "reward@1").stdout


def test_dvc_alone_refuses_a_stage_whose_sources_are_not_those_recorded(done: Path) -> None:
    """`--single-item` passes the stage by that would record them."""
    (done / "tasks/reward/builtin_terms.py").write_text("WEIGHT = 5\n")
    lock = (done / "dvc.lock").read_bytes()
    told = dvc(done, "repro", "--single-item", "--force", "reward@1", code=255)
    assert "run/sources/reward.json: not of the source files as they are now; run: dvc repro sources" in told.stderr
    assert (done / "dvc.lock").read_bytes() == lock
    dvc(done, "repro", "-q", "--single-item", "sources", "reward@1")
    assert ran(done) == ["reward@1"]
