"""Law: a real stage on a full disk ends in one line with nothing half-written; with room it writes the same bytes."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.process.exit_codes import exit_code
from flows.stages.run import run
from tests.support.params_file import override
from tests.support.real_project import make
from tests.support.small_disk import Ballast, mounted

pytestmark = pytest.mark.slow

STAGES = ["search@1", "collect@1", "reward@1", "select@1", "update@1", "evaluate@before"]


def written(root: Path) -> dict[str, bytes]:
    """All in run/, what a write has left beside its file too."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in (root / "run").rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with mounted(tmp_path_factory.mktemp("small") / "disk", "-t", "tmpfs", "-o", "size=32m", "tmpfs") as disk:
        yield disk


def test_a_real_stage_on_a_full_disk(disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Full from the start, and when half of what the stage writes is written."""
    roomy = make(tmp_path / "roomy")
    override(roomy / "params.yaml", ["evaluation.samples=4", "evaluation.ks=[1, 2]"])
    root = Path(shutil.copytree(roomy, disk / "project", symlinks=True))
    ballast = Ballast(disk)
    for address in STAGES:
        before = written(roomy)
        run(roomy, address)
        new = {name: content for name, content in written(roomy).items() if before.get(name) != content}
        for leave in (0, sum(map(len, new.values())) // 2):
            ballast.fill(leave)
            capsys.readouterr()
            code = exit_code(lambda address=address: run(root, address), debug=False)  # type: ignore[misc]
            told = capsys.readouterr().err.splitlines()[-1]
            ballast.drop()
            assert code == 2, (address, told)
            assert re.fullmatch(
                rf"graft: {root}/\S+: the disk is full; free some space and run again, nothing was lost", told
            ), (address, told)
            assert written(root) == before
        run(root, address)
        assert written(root) == written(roomy), address
