"""`graft doctor`: checks of the machine and the installation, with a remedy for each fault."""

import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from flows.card import check_card
from flows.machine import Finding, examine_machine
from flows.preflight import proposed_params
from flows.project.new_project import FILES, in_repository, init_command
from flows.stages.edits import REMEDY, edited_stages
from tasks.core.child_process import CODE
from tasks.errors import GraftError
from tasks.model.device import check_device
from tasks.params.params import Params

CONSTRAINTS = FILES / "constraints.txt"
"""The versions that were measured together."""

INSTALL = f"pip install -c {CONSTRAINTS} graft"
if (CODE / "pyproject.toml").is_file():
    INSTALL = 'pip install -c constraints.txt -e ".[test]"'
NO_VISION = "pip uninstall torchvision, which Graft does not use"
PYTHONS = ((3, 11), (3, 14))
"""The first and the last version of Python that Graft is tried with."""


def examine(root: Path) -> list[Finding]:
    """Check everything that a run depends on; of the machine and its card only with valid params."""
    findings = [check_python(sys.version_info[:3]), *_versions(), *bad_pair(_version), _git(root), _dvc(root)]
    try:
        _, params, _ = proposed_params(root, [])
    except GraftError as error:
        return [*findings, Finding.of_error("params.yaml", error)]
    findings += [Finding("params.yaml", "valid"), *_stages(root)]
    return [*findings, *examine_machine(root, params), check_card(params), *_device(params), *_operators(params)]


def check_python(python: tuple[int, int, int]) -> Finding:
    """Whether Graft is tried with a version of Python."""
    first, last = PYTHONS
    present = ".".join(map(str, python))
    if first <= python[:2] <= last:
        return Finding("Python", present)
    remedy = "take Python {}.{} to {}.{}: rm -r .venv, then make setup PYTHON=/path/to/python3"
    return Finding("Python", f"{present}: not tried", remedy.format(*first, *last))


def _versions() -> Iterator[Finding]:
    """Compare installed packages with constraints.txt, and required packages with those installed.

    A version in the range that pyproject.toml has for a package is right too, but not the one that was measured; one
    out of it is wrong. Others are a warning.
    """
    pins = _pins(CONSTRAINTS)
    required = _required()
    installed = {name: present for name in pins if (present := _version(name))}
    # Without the local part of a version: 2.13.0+cpu is 2.13.0.
    other = {name: present for name, present in installed.items() if present.partition("+")[0] != pins[name]}
    missing = [name for name in required if _version(name) is None]
    for name, present in other.items():
        spread = required[name].specifier if name in required else SpecifierSet()
        if spread and spread.contains(present):
            yield Finding(name, f"{present}, in the range {spread}; measured with {pins[name]}")
        else:
            result, remedy = f"{present}; constraints.txt says {pins[name]}", f"pip install {name}=={pins[name]}"
            yield Finding(name, result, remedy, fatal=bool(spread))
    for name in missing:
        yield Finding(name, "not installed", INSTALL)
    if not pins:
        yield Finding("constraints.txt", "missing or empty", f"restore {CONSTRAINTS}")
    elif not other and not missing:
        yield Finding("packages", f"as in constraints.txt ({len(pins)} pins)")


def bad_pair(version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    """A torchvision that breaks torch, of the versions (None: not installed) that `version_of` returns: pip installs
    them together."""
    torch, vision = version_of("torch"), version_of("torchvision")
    if torch and vision and torch.endswith("+cpu") and not vision.endswith("+cpu"):
        yield Finding(f"torch {torch}", f"with torchvision {vision}, built for CUDA", NO_VISION, "models")


def refuse_bad_pair() -> None:
    """Raise GraftError for versions with which a run fails minutes later, with a line that misleads."""
    for finding in bad_pair(_version):
        raise GraftError(f"{finding.thing} {finding.result} do not work ({finding.lost}); {finding.remedy}")


def _git(root: Path) -> Finding:
    if not shutil.which("git"):
        return Finding("git", "not found", "install git and put it on PATH: DVC needs it", "a run")
    if not in_repository(root):
        return Finding("git", "not a repository", "git init: DVC needs one", "a run")
    return Finding("git", "a repository")


def _dvc(root: Path) -> Finding:
    if not (root / ".dvc" / "config").is_file():
        remedy = f"git checkout .dvc, or in a new project: {init_command(root)}"
        return Finding("dvc", "no .dvc folder", remedy, "a run")
    if not Path(sys.executable).with_name("dvc").exists() and not shutil.which("dvc"):
        return Finding("dvc", "no dvc command", INSTALL, "a run")
    return Finding("dvc", _version("dvc") or "not installed", None if _version("dvc") else INSTALL)


def _stages(root: Path) -> Iterator[Finding]:
    """The stages in `dvc.yaml` that are not as this version of Graft writes them."""
    try:
        for line in edited_stages(root):
            yield Finding("dvc.yaml", line.removeprefix("dvc.yaml: "), REMEDY, "what DVC knows of it", fatal=False)
    except GraftError as error:
        yield Finding.of_error("dvc.yaml", error)


def _device(params: Params) -> Iterator[Finding]:
    try:
        check_device(params.machine.device)
    except GraftError as error:
        yield Finding.of_error("device", error)


def _operators(params: Params) -> Iterator[Finding]:
    """Send one short prompt to the server of the operators, if there is one."""
    from tasks.programs.operators.model import Prompt
    from tasks.programs.operators.openai_model import OpenAiModel

    operators = params.operators
    if operators.backend != "openai":
        return
    try:
        model = OpenAiModel(operators, retries=0)
        ((_, reply),) = model.complete([Prompt("ask", "Reply with one word.")])
    except GraftError as error:
        yield Finding.of_error("operators", error)
        return
    if reply.text is None:
        why = reply.failed or reply.refused or ""
        yield Finding("operators", why, "start that server, or fix operators.base_url in params.yaml", "a run")
    else:
        yield Finding("operators", f"{operators.model} replies")


def _pins(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {name: pin for name, separator, pin in (line.strip().partition("==") for line in lines) if separator}


def _required() -> dict[str, Requirement]:
    """Name → requirement of the packages that Graft requires, without extras."""
    try:
        requirements = [Requirement(line) for line in requires("graft") or [] if "extra ==" not in line]
    except PackageNotFoundError:
        return {}
    return {requirement.name: requirement for requirement in requirements}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
