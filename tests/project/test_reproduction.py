"""Law: whoever clones a commit gets the same bytes, computed on any path by any user, or fetched from a remote."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import tiny_project
from tests.support.params_file import override
from tests.support.tiny_project import ADDRESSES, EVALUATE, NOTHING, dvc, environment, graft, ran, run

pytestmark = pytest.mark.slow

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@t"]
NOBODY = 65534


def cached(root: Path) -> set[str]:
    """The digests that a project or a remote holds."""
    files = [p for p in root.glob("**/files/md5/*/*") if p.is_file()]
    return {p.parent.name + p.name for p in files}


def clone(origin: Path, root: Path) -> Path:
    run(origin, "git", "clone", "-q", ".", str(root))
    return root


def evaluated_otherwise(root: Path) -> Path:
    override(root / "params.yaml", ["evaluation.temperature=0.5"])
    return root


@pytest.fixture(scope="module")
def origin(by_graft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that was committed, and pushed to its remote, a folder, together with an earlier run."""
    folder = tmp_path_factory.mktemp("origin")
    root = folder / "project"
    shutil.copytree(by_graft, root)
    dvc(root, "remote", "add", "-q", "-d", "storage", str(folder / "remote"))
    graft(evaluated_otherwise(root), "stage", *EVALUATE)
    assert ran(root) == EVALUATE
    dvc(root, "push", "-q", "--run-cache")
    graft(root, "stage", "-S", "evaluation.temperature=0.8", *EVALUATE)
    run(root, "git", "add", "-A")
    run(root, "git", *IDENTITY, "commit", "-qm", "run")
    dvc(root, "push", "-q", "--run-cache")
    ran(root)
    return root


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_clone_elsewhere_computes_the_same_bytes(origin: Path, tmp_path: Path) -> None:
    """By `dvc repro`, what `graft` computed: with another locale, time zone and umask, below a name with a space."""
    root = clone(origin, tmp_path / "an other place" / "été")
    repro = ["sh", "-c", 'umask 077; exec "$@"', "sh", str(Path(sys.executable).with_name("dvc")), "repro", "-q"]
    run(root, *repro, LC_ALL="C", TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert ran(root) == ADDRESSES
    assert (root / "dvc.lock").read_bytes() == (origin / "dvc.lock").read_bytes()
    results = files_of(root / "run")
    assert results == files_of(origin / "run")
    assert {"promotion.json", "rounds/2/policy/weights.bin", "metrics/evaluate@after.json"} <= results.keys()
    assert files_of(root / ".dvc" / "cache").items() <= files_of(origin / ".dvc" / "cache").items()
    assert run(root, "git", "status", "--porcelain").stdout == ""


@pytest.mark.nightly
def test_another_user_computes_the_same_lock(origin: Path) -> None:
    """And finds nothing to do after the flow has run, nor does the flow after `dvc repro`."""
    with tiny_project.public_folder() as folder:
        root = clone(origin, folder / "project")
        user = as_nobody(folder)
        assert user(root, "-m", "dvc", "repro", "-q") == ""
        assert ran(root) == ADDRESSES
        assert (root / "dvc.lock").read_bytes() == (origin / "dvc.lock").read_bytes()
        assert (root / "dvc.lock").stat().st_uid == NOBODY
        told = user(root, "-m", "flows.cli.main", "retrain")
        assert f"report: {len(ADDRESSES)} stages, {len(ADDRESSES)} cached" in told
        user(root, "-m", "dvc", "repro", "-q")
        assert ran(root) == []


def as_nobody(folder: Path) -> Callable[..., str]:
    """Gives `folder` to a user without any rights; the result runs Python as that user. Skips where that cannot be."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can become somebody else, by setpriv")
    switch = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    switch += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # Python may be in root's own folder
    home = {"HOME": str(folder), "DVC_SITE_CACHE_DIR": str(folder / "site"), "XDG_CACHE_HOME": str(folder / "cache")}
    there = [*switch, "sh", "-c", 'exec "$0" -c "import dvc, pydantic"', sys.executable]
    if subprocess.run(there, capture_output=True, cwd=folder, env=environment(**home)).returncode:
        pytest.skip("the environment is not readable by others")
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return lambda root, *command: run(root, *switch, sys.executable, *command, **home).stdout


def test_what_was_pushed_is_pulled_and_nothing_is_left_to_do(origin: Path, tmp_path: Path) -> None:
    root = clone(origin, tmp_path / "project")
    dvc(root, "pull", "-q")
    assert dvc(root, "status", "--json").stdout.strip() == NOTHING
    dvc(root, "repro", "-q")
    printed = graft(root, "stage", *ADDRESSES).stdout.splitlines()
    assert [line.split()[:2] for line in printed] == [[address, "unchanged"] for address in ADDRESSES]
    assert ran(root) == []
    assert cached(root / ".dvc") < cached(origin.parent / "remote")  # without what the other run computed


def test_what_another_run_computed_is_pulled_too(origin: Path, tmp_path: Path) -> None:
    """Its results are in no dvc.lock, only in the run-cache that was pushed; promote looks at the champion instead."""
    root = evaluated_otherwise(clone(origin, tmp_path / "project"))
    dvc(root, "repro", "-q", "--pull")
    assert ran(root) == ["promote"]
    printed = graft(root, "stage", *ADDRESSES).stdout.splitlines()
    assert {line.split()[1] for line in printed} == {"unchanged"}


def test_a_stage_started_in_a_folder_below_finds_the_environment(tmp_path: Path) -> None:
    """As queued experiments do it: `.dvc/tmp/exps/…` has no .venv and VIRTUAL_ENV may not be set."""
    tools = tmp_path / "project" / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("graft", "python"):
        (tools / name).write_text('#!/bin/sh\necho "$0" "$@"\n')
        (tools / name).chmod(0o755)
    below = tmp_path / "project" / ".dvc" / "tmp" / "exps" / "standalone" / "tmp7"
    below.mkdir(parents=True)
    told = run(below, "sh", str(tiny_project.REPOSITORY / "flows" / "stage.sh"), "search@1", VIRTUAL_ENV="")
    assert told.stdout == f"{tools / 'python'} -m flows.stages.run search@1\n"
