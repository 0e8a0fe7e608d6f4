"""`graft new`: a project that has params, stages and data, and runs the installed Graft."""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tasks.artifacts import read_text, write_text
from tasks.errors import GraftError
from tasks.tracking import footprint

FILES = Path(__file__).with_name("files")
"""What a project begins with; in the repository, links to its own files but for the stages, which are compared."""

COPIES = {
    "params.yaml": "params.yaml",
    "README.md": "README.md",
    "rewards.py": "rewards.py",
    "problems.jsonl": "examples/problems.jsonl",
    "dvc_config": ".dvc/config",
    "plots.html": ".dvc/plots.html",
}

IGNORED = {
    ".gitignore": f"/.venv /run/ /dvc_plots/ /champion/ /challenger/ /latest/ /.graft/ {footprint.FILES} __pycache__/",
    ".dvcignore": ".venv/ .graft/ .git/ champion/ challenger/ latest/ __pycache__/",
    ".dvc/.gitignore": "/config.local /tmp /cache",
}
"""File → its lines, as words."""

IN_CLONE, IN_PROJECT = "sh flows/stage.sh ", "graft-stage "
"""Beginning of a stage's command, in a clone of Graft and in a project of the installed one."""

REPOSITORY_DEPS = """    deps:
      - tasks
      - flows/stages
"""
"""Dependencies of the stage `sources` on folders that a project does not have."""


def new_project(folder: Path) -> None:
    """Make a project. Raises GraftError, with nothing written, if there is something in the folder already."""
    if folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
        raise GraftError(f"{folder}: is there already; name a folder that is new or empty")
    if not folder.parent.is_dir():
        raise GraftError(f"{folder}: no folder {folder.parent}; make it first")
    if not shutil.which("git"):
        raise GraftError("git: not found, and DVC needs it; install git and put it on PATH")
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as name:
        project = Path(name) / folder.name
        _write(project)
        if not in_repository(folder.parent):
            subprocess.run(["git", "init", "-q", str(project)], check=True)
        project.rename(folder)


def _write(project: Path) -> None:
    for name in ("examples", ".dvc"):
        (project / name).mkdir(parents=True)
    for name, place in COPIES.items():
        shutil.copyfile(FILES / name, project / place)
    for name, lines in IGNORED.items():
        write_text(project / name, "\n".join([*lines.split(), ""]))
    write_text(project / "dvc.yaml", project_stages(read_text(FILES / "stages.yaml")))
    in_file, in_module = "flows/scheduling/scheduled_run.py:scheduled", "flows.scheduling.scheduled_run.scheduled"
    write_text(project / "prefect.yaml", read_text(FILES / "deployment.yaml").replace(in_file, in_module))


def project_stages(text: str) -> str:
    """The `dvc.yaml` of a project, from that of a clone."""
    return text.replace(REPOSITORY_DEPS, "").replace(f"cmd: {IN_CLONE}", f"cmd: {IN_PROJECT}")


def init_command(root: Path) -> str:
    """The command that makes a DVC project of a folder; the folder may be a part of a git repository."""
    return "dvc init" if (root / ".git").exists() else "dvc init --subdir"


def in_repository(folder: Path) -> bool:
    """Whether a folder is in a working tree of git, which has to be installed."""
    done = subprocess.run(["git", "rev-parse", "--is-inside-work-tree"], cwd=folder, capture_output=True, text=True)
    return done.stdout.strip() == "true"
