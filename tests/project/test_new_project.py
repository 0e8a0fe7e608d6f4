"""Laws: a project that `graft new` made has none of Graft's source, computes what a clone of Graft computes, and an
upgrade of the installed Graft makes stale exactly what it changed."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.project.new_project import new_project
from flows.stages.dvc_yaml import parse
from flows.stages.sources import SOURCES
from tasks.artifacts import digest_path
from tasks.errors import GraftError
from tests.support import tiny_project
from tests.support.params_file import override
from tests.support.tiny_project import ADDRESSES, REPOSITORY, ran, run

CONTENT = {
    *("params.yaml", "dvc.yaml", "prefect.yaml", "README.md", "rewards.py", "examples/problems.jsonl"),
    *(".gitignore", ".dvcignore", ".dvc/config", ".dvc/.gitignore", ".dvc/plots.html"),
}


def test_a_new_project_has_the_params_and_the_stages_of_the_repository(tmp_path: Path) -> None:
    root = tmp_path / "mein Projekt ä"
    new_project(root)
    files = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file() and ".git" not in p.parts}
    assert files == CONTENT
    assert [p.name for p in tmp_path.iterdir()] == [root.name]
    assert (root / "params.yaml").read_bytes() == (REPOSITORY / "params.yaml").read_bytes()
    ours, new = (parse(folder / "dvc.yaml")["stages"] for folder in (REPOSITORY, root))
    assert ours.keys() == new.keys()
    del ours[SOURCES]["deps"]
    for stage in ours:
        entry, other = (stages[stage].get("do", stages[stage]) for stages in (ours, new))
        assert other.pop("cmd") == entry.pop("cmd").replace("sh flows/stage.sh", "graft-stage")
        assert other == entry
    assert not (root / "params.yaml").is_symlink()


def test_a_project_inside_a_repository_gets_none_of_its_own(tmp_path: Path) -> None:
    run(tmp_path, "git", "init", "-q")
    new_project(tmp_path / "below")
    assert not (tmp_path / "below" / ".git").exists()


@pytest.mark.parametrize("put", [
    lambda folder: folder.write_text("mine"), lambda folder: (folder / "mine").mkdir(parents=True),
    lambda folder: folder.symlink_to("nowhere"),
])  # fmt: skip
def test_what_is_there_is_never_written_over(tmp_path: Path, put: Callable[[Path], object]) -> None:
    put(tmp_path / "project")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(GraftError, match=r"project: is there already; name a folder that is new or empty"):
        new_project(tmp_path / "project")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_in_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match=r"no folder .*missing; make it first"):
        new_project(tmp_path / "missing" / "project")


def test_the_deployment_of_a_project_is_a_flow(tmp_path: Path) -> None:
    from prefect.flows import load_flow_from_entrypoint
    from prefect.utilities.importtools import import_object
    from ruamel.yaml import YAML

    new_project(tmp_path / "project")
    (deployment,) = YAML(typ="safe").load(tmp_path / "project" / "prefect.yaml")["deployments"]
    assert import_object(deployment["entrypoint"]) is load_flow_from_entrypoint(deployment["entrypoint"])


def test_outside_of_a_project_the_command_is_named(tmp_path: Path) -> None:
    told = run(tmp_path, "graft", "status", code=2).stderr
    assert told.endswith("; go to the project's own folder first, or make one: graft new DIR\n")


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of a folder with Graft's source; setuptools leaves `build/` in that folder."""
    _pip("wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source))
    (wheel,) = folder.glob("graft-*.whl")
    return wheel


def make_environment(folder: Path) -> Path:
    """A new virtual environment without Graft, which sees the present one's packages; the folder of its commands."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sysconfig.get_python_version()}"
    below = folder / "lib" / version / "site-packages" / "below.pth"
    packages = [path for path in sys.path if path.endswith("site-packages")]
    below.write_text("\n".join([*packages, ""]), encoding="utf-8")
    return folder / "bin"


def install(wheel: Path, commands: Path) -> None:
    """Install the wheel in the environment with these commands, in place of an earlier one."""
    _pip("--python", str(commands / "python"), "install", "-q", "--no-deps", "--force-reinstall", str(wheel))


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


@pytest.mark.slow
def test_the_installed_graft_computes_what_a_clone_computes_and_an_upgrade_makes_stale_what_it_changed(
    by_graft: Path, tmp_path: Path
) -> None:
    source = tiny_project.make(tmp_path / "source")
    (source / "README.md").touch()
    commands = make_environment(tmp_path / "venv")
    path = {"PATH": f"{commands}:{tiny_project.environment()['PATH']}", "VIRTUAL_ENV": ""}

    def upgrade(version: str) -> None:
        install(build_wheel(source, tmp_path / version), commands)

    upgrade("first")
    root = tmp_path / "ä project"
    run(tmp_path, "graft", "new", root.name, **path)
    assert not {"flows", "tasks"} & {p.name for p in root.iterdir()}
    shutil.copy(by_graft / "examples" / "problems.jsonl", root / "examples")
    override(root / "params.yaml", ["rounds=2", 'machine.tracking.uri=""'])
    tiny_project.commit(root)
    copy = shutil.copytree(root, tmp_path / "by dvc")

    run(root, "graft", "stage", *ADDRESSES, **path)
    run(copy, "dvc", "repro", "-q", **path)
    assert ran(root) == ran(copy) == ADDRESSES
    results = {name: digest_path(by_graft / "run" / name) for name in ("rounds", "sources", "policy", "promotion.json")}
    for project in (root, copy):
        assert {name: digest_path(project / "run" / name) for name in results} == results
    assert (root / "dvc.lock").read_bytes() == (copy / "dvc.lock").read_bytes()

    (source / "tasks" / "reward" / "builtin_terms.py").write_text("WEIGHT = 2\n")
    upgrade("second")
    told = run(root, "graft", "status", **path).stdout.splitlines()
    stale = {line.split()[0] for line in told if "source tasks/reward/builtin_terms.py: changed" in line}
    assert stale == {"reward@1", "reward@2"}
    run(copy, "dvc", "repro", "-q", **path)
    after = ADDRESSES[ADDRESSES.index("reward@1") :]
    assert ran(copy) == [address for address in after if address != "evaluate@before"]
