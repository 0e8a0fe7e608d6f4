"""`make docs` builds a page for each file of docs/, and no page loads a script, style, font or image from a network.

The schedule of docs/operations.md is that of prefect.yaml, and systemd accepts its units.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.support.tiny_project import REPOSITORY


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(REPOSITORY / "docs", root / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "mkdocs.yml", root)
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run([zensical, "build", "--strict"], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return root / "site"


def test_every_page_is_in_the_navigation_and_built(site: Path) -> None:
    listed = re.findall(r"[\w/-]+\.md", str(YAML().load((REPOSITORY / "mkdocs.yml").read_text())["nav"]))
    names = {path.relative_to(REPOSITORY / "docs").as_posix() for path in (REPOSITORY / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(names)
    assert {path.stem for path in site.rglob("*.html")} == {Path(name).stem for name in names} | {"404"}
    assert not list(site.rglob("*.py"))


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe|source|video|audio|object|embed)\b[^>]*>", page.read_text())
        assert [tag for tag in tags if re.search(r"(?:src|href|data)=[\"']?(?:\w+:)?//", tag)] == []
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)\"']*", style.read_text(encoding="utf-8")) == []


PAGE = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
UNITS = dict(re.findall(r"user/([\w-]+\.service)`[^`]*```ini\n(.*?)```", PAGE, re.DOTALL))


def test_its_schedule_is_that_of_prefects_file() -> None:
    recipe = (REPOSITORY / "prefect.yaml").read_text()
    assert "prefect deployment run scheduled/nightly-" in PAGE
    assert '- name: "nightly-{{ project.name }}"' in recipe
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
