"""`dvc plots` and `dvc metrics diff` with the project's own settings: they work without a network."""

import re
import shutil
from pathlib import Path

import pytest

from tasks.artifacts import write_json
from tasks.layout import Layout
from tests.support import finished_run
from tests.support.browser import browser, needed
from tests.support.stage_params import REPOSITORY
from tests.support.tiny_project import commit, dvc, run

STAGE = """\
stages:
  update:
    cmd: echo there
    plots:
      - run/plots/update@1.csv: {x: step, y: loss}
      - run/rounds/1/tree.svg
    metrics:
      - run/metrics/evaluate@after.json
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run under git and DVC, and in the working tree the same with another pass@1."""
    root = tmp_path_factory.mktemp("plots") / "project"
    finished_run.write(root, rounds=1)
    (root / "dvc.yaml").write_text(STAGE)
    (root / ".gitignore").write_text("/run\n")
    run(root, "git", "init", "-q")
    dvc(root, "init", "-q")
    for name in ("config", "plots.html"):
        shutil.copy(REPOSITORY / ".dvc" / name, root / ".dvc")
    dvc(root, "commit", "-q", "--force")
    commit(root)
    write_json(Layout(root).metrics("evaluate", "after"), {"pass_at_1": 0.875})
    return root


@needed
def test_plots_are_drawn_and_nothing_is_asked_of_the_network(project: Path, tmp_path: Path) -> None:
    dvc(project, "plots", "show", "-o", str(tmp_path / "plots"))
    page = tmp_path / "plots" / "index.html"
    assert re.findall(r"src=[\"']?https?:[^>]*", page.read_text()) == []
    with browser(tmp_path / "profile") as seen:
        seen.open(page)
        assert seen.requested == [page.as_uri(), *(p.as_uri() for p in (page.parent / "static").iterdir())]
        drawn = "new Promise(tell => { const look = () => document.querySelector('.vega-embed canvas, .vega-embed svg')"
        drawn += " ? tell(true) : setTimeout(look, 50); look(); })"
        assert seen.value(drawn)
        assert seen.value("document.querySelector('.vega-embed canvas').width") > 100
        assert seen.value("document.querySelector('img').naturalWidth") > 0
        assert seen.complaints == []


def test_the_page_brings_the_versions_that_dvc_names() -> None:
    from dvc_render.vega import VegaRenderer

    named = set(re.findall(r"npm/([\w-]+@[\d.]+)", VegaRenderer.SCRIPTS))
    assert len(named) == 3
    assert named == set(
        re.findall(r"\b(vega[\w-]*@\d[\d.]*\d)", (REPOSITORY / ".dvc" / "plots.html").read_text()[:600])
    )
