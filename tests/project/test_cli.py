"""What `graft` answers: quickly, in one line, and with nothing written where the input is wrong."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import write_json
from tasks.programs.operators.model_calls import MODEL_OPERATORS
from tasks.programs.sandbox.run_program import ALL_OPERATORS
from tests.support.tiny_project import dvc, graft, ran, run
from tests.support.valid_files import CHAMPION

COMMANDS = [["stage", "problems"], ["retrain"], ["status"]]
HEAVY = {"torch", "transformers", "prefect", "mlflow", "dvc", "scipy", "numpy", "peft"}


def refused(root: Path, *arguments: str) -> str:
    """The one line on stderr, after seeing that nothing was written and nothing ran."""
    before = (root / "params.yaml").read_text()
    told = graft(root, *arguments, code=2)
    assert told.stderr.startswith("graft: ")
    assert told.stderr.count("\n") == 1
    assert told.stdout == ""
    assert (root / "params.yaml").read_text() == before
    assert ran(root) == []
    return told.stderr


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("update.betta=0.1", r"params\.yaml: no param 'update\.betta'; did you mean 'update\.beta'\?"),
        (
            "grpo.unfit=skip",
            r"params\.yaml: no param 'grpo\.unfit'; it was renamed to 'update\.unfit' \(graft convert ",
        ),
        (
            "influence.top_k=3",
            r"params\.yaml: no param 'influence\.top_k'; it was removed: all validation completions ",
        ),
        ("beta=0.1", r"params\.yaml: no param 'beta'; did you mean 'update\.beta'\?"),
        ("update.clip_low=1.5", r"params\.yaml:\d+: update\.clip_low: .*less than or equal to 1, not 1\.5"),
        ("seed=half", r"params\.yaml:\d+: seed: .*integer, not 'half'"),
        ("search.samples=100", r"params\.yaml:\d+: search: simulations \(\d+\) must be at least samples \(100\)"),
        ("update.beta", r"-S update\.beta: not of the form key=value"),
        ("problems.path=none.jsonl", r"problems\.path: no file none\.jsonl; name a jsonl file"),
        ("policy.base=./none", r"policy\.base: no folder \./none; name a folder, a Hugging Face id, or scratch"),
    ],
)
def test_a_wrong_assignment_is_named_and_nothing_is_written(by_graft: Path, assignment: str, expected: str) -> None:
    assert re.search(expected, refused(by_graft, "stage", "problems", "-S", "seed=5", "-S", assignment))


def test_another_environment_than_the_champions_is_refused(done: Path) -> None:
    write_json(done / "champion" / "champion.json", CHAMPION)
    expected = "trained in environment workflow, this run's is answer"
    assert expected in refused(done, "retrain", "-S", "environment=answer")


def test_the_long_option_is_that_of_dvc(by_graft: Path) -> None:
    assert "no param 'sede'" in refused(by_graft, "stage", "problems", "--set-param", "sede=5")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (lambda text: text.replace("seed: 0", "seed: 0\nsede: 1"), r"params\.yaml:\d+: no param 'sede'; did you mean"),
        (lambda text: text.replace("beta:", "beta: ["), r"params\.yaml:\d+: not YAML: "),
        (
            lambda text: text.replace('{"1": 0, "2": 1}', "{1: 0, 2: 1}"),
            r"params\.yaml:\d+: rounds\.start: .*quotes",
        ),
        (lambda _: "", r"params\.yaml: holds nothing; restore the file"),
    ],
)
def test_a_broken_params_file_is_named_with_its_line(
    done: Path, broken: Callable[[str], str], expected: str, command: list[str]
) -> None:
    params = done / "params.yaml"
    params.write_text(broken(params.read_text()))
    assert re.search(expected, refused(done, *command))


def test_a_broken_dvc_file_is_told(done: Path) -> None:
    (done / "dvc.yaml").write_text("stages: [\n")
    assert "dvc.yaml" in refused(done, "stage", "problems")


def test_an_unknown_stage_lists_the_real_ones(by_graft: Path) -> None:
    line = refused(by_graft, "stage", "serch")
    assert "no stage 'serch'" in line
    assert "search@1, search@2" in line


def test_a_stage_whose_inputs_are_missing_names_them(done: Path) -> None:
    (done / "run/rounds/1/trajectories.jsonl").unlink()
    line = refused(done, "stage", "reward@1")
    assert line == (
        "graft: reward@1: no run/rounds/1/trajectories.jsonl; collect@1 writes it: "
        "run graft stage collect@1, or all with graft retrain\n"
    )
    assert (done / "run/rounds/1/rewards.jsonl").exists()
    (done / "tasks/reward/builtin_terms.py").unlink()
    assert "tasks/reward/task.py: imports tasks.reward.builtin_terms, which is not there; restore it" in refused(
        done, "stage", "reward@2"
    )


@pytest.mark.parametrize("missing", ["params.yaml", "dvc.yaml"])
def test_outside_of_a_project_the_missing_file_is_named(done: Path, missing: str) -> None:
    (done / missing).unlink()
    assert f"graft: {missing}: not in {done}" in graft(done, "status", code=2).stderr


def test_without_git_or_dvc_the_remedy_is_named(done: Path) -> None:
    run(done, "mv", ".git", "put_away")
    assert "git init" in refused(done, "stage", "problems")
    run(done, "mv", "put_away", ".git")
    run(done, "mv", ".dvc", "put_away")
    assert "dvc init" in refused(done, "stage", "problems")


def test_the_code_of_another_folder_is_refused(done: Path) -> None:
    """`graft` of one clone, called in another, would run its own code and record the other's."""
    told = run(done, "graft", "status", code=2)
    assert "this command runs the code in" in told.stderr


def test_usage_errors_end_with_2(by_graft: Path) -> None:
    for arguments in (["retrain", "--rounds", "0"], ["stage"], ["walk"], ["status", "--no-such-option"]):
        told = graft(by_graft, *arguments, code=2)
        assert "Traceback" not in told.stderr


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
    listed = graft(by_graft, "--help").stdout
    for command in ("retrain", "stage", "status", "tree", "diagnose", "compare", "operators", "doctor"):
        assert command in listed
        assert len(graft(by_graft, command, "--help").stdout.split()) > 20
    assert graft(by_graft, "--version").stdout.startswith("graft 0.")


def test_the_operators_are_listed_with_what_they_do(by_graft: Path) -> None:
    listed = graft(by_graft, "operators").stdout
    for name, function in ALL_OPERATORS.items():
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{name}(")]
        assert line.endswith("[served by a model]") == (name in MODEL_OPERATORS)
        assert (function.__doc__ or "").partition("\n")[0] in listed


def test_a_param_is_written_and_told_once(done: Path) -> None:
    told = graft(done, "stage", "reward@1", "-S", "rewards.runs=0.5", "-S", "seed=0").stdout.splitlines()
    assert told[0] == "params.yaml: rewards.runs: 0.0 → 0.5"
    assert told[1].split()[:2] == ["reward@1", "ran"]
    assert run(done, "git", "diff", "--numstat").stdout == "1\t1\tparams.yaml\n"


def test_a_group_name_means_each_of_its_rounds(done: Path) -> None:
    told = graft(done, "stage", "reward", "evaluate").stdout.splitlines()
    assert [line.split()[0] for line in told] == ["reward@1", "reward@2", "evaluate@before", "evaluate@after"]


def test_a_stage_alone_names_the_stages_it_knows(by_graft: Path) -> None:
    told = run(by_graft, "python", "-m", "flows.stages.run", "serch", code=2)
    assert told.stderr.startswith("graft: name one stage: problems, coldstart, ")


@pytest.mark.parametrize("activated", ["", "/usr"])
def test_dvc_finds_the_right_python_whatever_is_activated(done: Path, activated: str) -> None:
    """`.venv/bin/dvc repro` by its path, with a PATH that has no Python of ours."""
    (done / ".venv").symlink_to(sys.prefix)
    dvc = f"{done}/.venv/bin/dvc"
    told = ["repro", "-q", "--force", "--single-item", "reward@1"]
    run(done, dvc, *told, PATH="/usr/bin:/bin", VIRTUAL_ENV=activated)
    assert ran(done) == ["reward@1"]
    assert "unchanged" in graft(done, "stage", "reward@1").stdout


def test_a_new_import_is_seen(done: Path) -> None:
    (done / "tasks/reward/more.py").write_text("WEIGHT = 5\n")
    (done / "tasks/reward/builtin_terms.py").write_text("from tasks.reward.more import WEIGHT\n")
    graft(done, "stage", "reward@1")
    assert ran(done) == ["reward@1"]
    (done / "tasks/reward/more.py").write_text("WEIGHT = 6\n")
    told = graft(done, "status").stdout.splitlines()
    assert [line.split()[0] for line in told if "source tasks/reward/more.py: changed" in line] == ["reward@1"]
    graft(done, "stage", "reward@1")
    assert ran(done) == ["reward@1"]


def test_dvc_alone_refuses_a_stage_whose_sources_are_not_those_recorded(done: Path) -> None:
    """`--single-item` passes the stage by that would record them."""
    (done / "tasks/reward/builtin_terms.py").write_text("WEIGHT = 5\n")
    lock = (done / "dvc.lock").read_bytes()
    told = dvc(done, "repro", "--single-item", "--force", "reward@1", code=255)
    assert "run/sources/reward.json: not of the source files as they are now; run: dvc repro sources" in told.stderr
    assert (done / "dvc.lock").read_bytes() == lock
    dvc(done, "repro", "-q", "--single-item", "sources", "reward@1")
    assert ran(done) == ["reward@1"]


def test_a_source_that_is_not_python_is_named_with_its_line(done: Path) -> None:
    (done / "tasks/reward/builtin_terms.py").write_text("WEIGHT = 5\ndef\n")
    assert re.search(r"tasks/reward/builtin_terms\.py:2: not Python", refused(done, "stage", "reward@1"))
