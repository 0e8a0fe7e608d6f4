"""docs/operations.md: its schedule is that of prefect.yaml, and systemd accepts its units."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_project import REPOSITORY

PAGE = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
UNITS = dict(re.findall(r"user/([\w-]+\.service)`[^`]*```ini\n(.*?)```", PAGE, re.DOTALL))


def test_its_schedule_is_that_of_prefects_file() -> None:
    recipe = (REPOSITORY / "prefect.yaml").read_text()
    assert "prefect deployment run scheduled/nightly" in PAGE
    assert "- name: nightly" in recipe
    assert "flows/scheduling/scheduled_run.py:scheduled" in recipe
    assert "name: graft" in recipe


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_accepts_its_units(tmp_path: Path) -> None:
    assert sorted(UNITS) == ["graft-mlflow.service", "graft-prefect.service", "graft-worker.service"]
    for name, text in UNITS.items():
        here = text.replace("%h/graft/.venv/bin", str(Path(sys.executable).parent))  # systemd looks for them
        (tmp_path / name).write_text(here)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", *(tmp_path / name for name in UNITS)],
        env={
            "HOME": str(tmp_path),
            "XDG_RUNTIME_DIR": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "SYSTEMD_LOG_LEVEL": "warning",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
