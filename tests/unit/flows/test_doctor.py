"""`graft doctor` finds faults and names remedies."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from flows.card import torch_build
from flows.doctor import bad_pair, check_python, examine
from flows.machine import Finding
from tasks.programs.operators.openai_model import KEY
from tests.support.chat_server import chat_server
from tests.support.params_file import override
from tests.support.small_disk import mounted
from tests.support.tiny_project import graft, run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the doctor examines."""
    for folder in (".dvc", "examples"):
        (tmp_path / folder).mkdir()
    for name in ("constraints.txt", "params.yaml", "dvc.yaml", ".dvc/config", "examples/problems.jsonl"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr("flows.doctor.CONSTRAINTS", tmp_path / "constraints.txt")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


MACHINE = {"sandbox", "memory", "disk", "temporary files", "shared memory", "loopback", "card"}


def wrong(root: Path) -> dict[str, Finding]:
    return {f.thing: f for f in examine(root) if f.remedy and f.thing not in MACHINE}


def test_a_sound_project_has_nothing_wrong(sound: Path) -> None:
    assert wrong(sound) == {}
    assert {f.thing for f in examine(sound)} == {"Python", "packages", "git", "dvc", "params.yaml"} | MACHINE


def test_an_edited_stage_is_a_warning(sound: Path) -> None:
    path = sound / "dvc.yaml"
    path.write_text(path.read_text().replace("search.temperature, update, ppo]", "search.temperature, ppo]"))
    (found,) = wrong(sound).values()
    assert (found.thing, found.result, found.state) == ("dvc.yaml", "update: params lacks update", "warning")


@pytest.mark.parametrize(
    ("python", "tried"),
    [((3, 10, 14), False), *(((3, minor, 1), True) for minor in (11, 12, 13, 14)), ((3, 15, 0), False)],
)
def test_pythons_from_311_to_314_are_tried(python: tuple[int, int, int], tried: bool) -> None:
    finding = check_python(python)
    assert (finding.remedy is None) == tried
    assert ("not tried" in finding.result) != tried


def test_another_version_in_the_range_that_is_required_is_told_and_not_wrong(sound: Path) -> None:
    replace(sound / "constraints.txt", f"torch=={version('torch').partition('+')[0]}", "torch==2.999")
    assert wrong(sound) == {}
    (torch,) = (finding for finding in examine(sound) if finding.thing == "torch")
    assert torch.result == f"{version('torch')}, in the range >=2.11; measured with 2.999"


HARMS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "git": (lambda root: shutil.rmtree(root / ".git"), "git", "git init"),
    "dvc": (lambda root: shutil.rmtree(root / ".dvc"), "dvc", "dvc init"),
    "problems": (lambda root: (root / "examples" / "problems.jsonl").unlink(), "params.yaml", "problems.jsonl"),
    "params": (lambda root: replace(root / "params.yaml", "seed: 0", "sede: 0"), "params.yaml", "did you mean"),
    "pin": (lambda root: replace(root / "constraints.txt", "typer==", "typer==0"), "typer", "pip install typer==0"),
    "constraints": (lambda root: (root / "constraints.txt").unlink(), "constraints.txt", "restore "),
}


def test_a_card_that_is_asked_for_and_not_there(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    override(sound / "params.yaml", ["machine.device=cuda"])
    assert list(wrong(sound)) == ["device"]


def test_a_model_that_replies_and_one_that_does_not(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with chat_server(lambda *_: (200, "yes")) as server:
        changes = ["backend=openai", "model=tiny", f"base_url={server.url}"]
        override(sound / "params.yaml", [f"operators.{change}" for change in changes])
        assert Finding("operators", "tiny replies") in examine(sound)
    assert "start that server" in str(wrong(sound)["operators"].remedy)
    with chat_server(lambda *_: (404, "no model tiny")) as server:
        override(sound / "params.yaml", [f"operators.base_url={server.url}"])
        assert "no model tiny" in wrong(sound)["operators"].result
    override(sound / "params.yaml", ["operators.base_url=null"])
    assert "export the key" in str(wrong(sound)["operators"].remedy)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("harm", HARMS)
def test_each_wrong_thing_is_named_with_its_remedy(sound: Path, harm: str) -> None:
    act, thing, remedy = HARMS[harm]
    act(sound)
    found = wrong(sound)
    assert list(found) == [thing]
    assert remedy in f"{found[thing].result}; {found[thing].remedy}"


@pytest.mark.parametrize(
    ("versions", "damage"),
    [
        ("torch 2.13.0+cpu, torchvision 0.28.0", "torch 2.13.0+cpu with torchvision 0.28.0, built for CUDA: models"),
        ("torch 2.13.0+cpu, torchvision 0.28.0+cpu", ""),
        ("torch 2.13.0, torchvision 0.28.0", ""),
    ],
)
def test_versions_that_pip_installs_together_and_that_do_not_work_are_found(versions: str, damage: str) -> None:
    installed = dict(one.split() for one in versions.split(", "))
    lines = [f"{pair.thing} {pair.result}: {pair.lost}" for pair in bad_pair(installed.get)]
    assert len(lines) == bool(damage)
    assert damage in "".join(lines)


def test_the_command_ends_with_1_and_the_remedy_where_a_run_would_fail(done: Path) -> None:
    replace(done / "flows" / "project" / "files" / "constraints.txt", "typer==", "typer==0")
    shutil.rmtree(done / ".git")
    lines = rows(graft(done, "doctor", code=1, COLUMNS="200").stdout)
    assert ["wrong", "git", "not a repository", "a run", "git init: DVC needs one"] in lines
    (typer,) = (row for row in lines if row[1] == "typer")
    assert typer[0] == "warning"  # in the range of pyproject.toml, which has none for it
    assert typer[-1].startswith("pip install typer==0")


def test_the_command_ends_with_0_where_a_run_might_need_more(done: Path, tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=200m", "tmpfs") as disk:
        root = Path(shutil.copytree(done, disk / "project"))
        lines = rows(graft(root, "doctor", COLUMNS="200").stdout)
    (row,) = (row for row in lines if row[1] == "disk")
    assert row[0] == "warning"
    assert row[3] == "a run that writes more than that"
    assert row[4].startswith("free some space")


def rows(printed: str) -> list[list[str]]:
    """The cells of each row of the table that are not empty; no cell wraps."""
    return [re.split(r" {2,}", line.rstrip()) for line in printed.splitlines()[2:]]


def test_torch_is_not_imported_where_it_can_use_no_card(sound: Path) -> None:
    if torch_build()["cuda"] or torch_build()["hip"]:
        pytest.skip("this torch may use a card")
    code = "import sys, pathlib, flows.doctor as d; d.examine(pathlib.Path()); sys.exit('torch' in sys.modules)"
    assert run(sound, sys.executable, "-c", code, PYTHONPATH=str(ROOT)).returncode == 0
