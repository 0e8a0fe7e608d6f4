"""Graft as others install it: a wheel in an environment of its own, with the packages of the present one below it."""

import subprocess
import sys
import sysconfig
from pathlib import Path


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
