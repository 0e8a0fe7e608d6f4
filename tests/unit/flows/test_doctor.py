"""`graft doctor` finds faults and names remedies."""

import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from flows.doctor import Finding, bad_pairs, check_python, examine
from tasks.params.file import override
from tasks.programs.operators.openai_model import KEY
from tests.support.chat_server import chat_server
from tests.support.tiny_project import graft

ROOT = Path(__file__).parents[3]


@pytest.fixture
def sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the doctor examines."""
    (tmp_path / ".dvc").mkdir()
    for name in ("constraints.txt", "params.yaml", "dvc.yaml", ".dvc/config"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr("flows.doctor.CONSTRAINTS", tmp_path / "constraints.txt")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def wrong(root: Path) -> dict[str, Finding]:
    ignored = {"sandbox", "free disk"}  # of the machine, not of the project
    return {f.thing: f for f in examine(root) if f.remedy and f.thing not in ignored}


def test_a_sound_project_has_nothing_wrong(sound: Path) -> None:
    assert wrong(sound) == {}
    things = {"Python", "packages", "sandbox", "free disk", "git", "dvc", "params.yaml"}
    assert {f.thing for f in examine(sound)} == things


@pytest.mark.parametrize(
    ("python", "tried"),
    [((3, 10, 14), False), *(((3, minor, 1), True) for minor in (11, 12, 13, 14)), ((3, 15, 0), False)],
)
def test_pythons_from_311_to_314_are_tried(python: tuple[int, int, int], tried: bool) -> None:
    finding = check_python(python)
    assert (finding.remedy is None) == tried
    assert ("not tried" in finding.found) != tried


def test_another_version_in_the_range_that_is_required_is_told_and_not_wrong(sound: Path) -> None:
    replace(sound / "constraints.txt", f"torch=={version('torch').partition('+')[0]}", "torch==2.999")
    assert wrong(sound) == {}
    (torch,) = (finding for finding in examine(sound) if finding.thing == "torch")
    assert torch.found == f"{version('torch')}, in the range >=2.11; measured with 2.999"


HARMS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "git": (lambda root: shutil.rmtree(root / ".git"), "git", "git init"),
    "dvc": (lambda root: shutil.rmtree(root / ".dvc"), "dvc", "dvc init"),
    "params": (lambda root: replace(root / "params.yaml", "seed: 0", "sede: 0"), "params.yaml", "did you mean"),
    "pin": (lambda root: replace(root / "constraints.txt", "typer==", "typer==0"), "typer", "pip install typer==0"),
    "constraints": (lambda root: (root / "constraints.txt").unlink(), "constraints.txt", "restore "),
}


def test_a_model_that_replies_and_one_that_does_not(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with chat_server(lambda *_: (200, "yes")) as server:
        changes = ["backend=openai", "model=tiny", f"base_url={server.url}"]
        override(sound / "params.yaml", [f"operators.{change}" for change in changes])
        assert Finding("operators", "tiny replies") in examine(sound)
    assert "start that server" in str(wrong(sound)["operators"].remedy)
    with chat_server(lambda *_: (404, "no model tiny")) as server:
        override(sound / "params.yaml", [f"operators.base_url={server.url}"])
        assert "no model tiny" in wrong(sound)["operators"].found
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
    assert remedy in f"{found[thing].found}; {found[thing].remedy}"


@pytest.mark.parametrize(
    ("versions", "damage"),
    [
        ("prefect 3.8.8, fastapi 0.151.0", "prefect 3.8.8 with fastapi 0.151.0 no flow can start"),
        ("prefect 3.8.8, fastapi 0.150.0", ""),
        ("prefect 3.9.1, fastapi 1.0", ""),
        ("prefect 3.8.8, sqlalchemy 2.1.0b1", "prefect 3.8.8 with sqlalchemy 2.1.0b1 no schedule starts a run"),
        ("prefect 3.8.8, sqlalchemy 2.0.57", ""),
        ("prefect 3.9.1, sqlalchemy 2.1.9", ""),
        ("torch 2.13.0+cpu, torchvision 0.28.0", "torch 2.13.0+cpu with torchvision 0.28.0, built for CUDA, no model"),
        ("torch 2.13.0+cpu, torchvision 0.28.0+cpu", ""),
        ("torch 2.13.0, torchvision 0.28.0", ""),
        ("torch 2.13.0+cpu", ""),
    ],
)
def test_versions_that_pip_installs_together_and_that_do_not_work_are_found(versions: str, damage: str) -> None:
    installed = dict(one.split() for one in versions.split(", "))
    lines = [f"{pair.thing} {pair.found}" for pair in bad_pairs(installed.get)]
    assert len(lines) == bool(damage)
    assert damage in "".join(lines)


def test_the_command_ends_with_1_and_the_remedy_where_something_is_wrong(done: Path) -> None:
    replace(done / "flows" / "project" / "files" / "constraints.txt", "typer==", "typer==0")
    printed = graft(done, "doctor", code=1).stdout
    for line in ("wrong  typer: ", "       remedy: pip install typer==0", "ok     git: a repository"):
        assert line in printed
