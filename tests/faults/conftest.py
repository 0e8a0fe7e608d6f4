"""An undisturbed run of the tiny project, which every disturbed one must end like, and what disturbs."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.prefect_runs.temporary_server import TemporaryServer
from tests.support import tiny_project
from tests.support.aftermath import Bytes, bytes_of


@pytest.fixture(scope="session")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny project in which nothing is computed. Not to be changed."""
    return tiny_project.make(tmp_path_factory.mktemp("new") / "project")


@pytest.fixture(scope="session")
def undisturbed(by_graft: Path) -> Bytes:
    """What every run has to end with."""
    return bytes_of(by_graft)


@pytest.fixture
def fresh(new: Path, tmp_path: Path) -> Path:
    """A project to work on in which nothing is computed."""
    return Path(shutil.copytree(new, tmp_path / "project"))


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server at `prefect_url`."""
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="session")
def prefect_url(prefect_home: Path) -> Iterator[str]:
    """A Prefect server that outlives the runs: each is spared the start of its own."""
    with TemporaryServer(prefect_home) as url:
        yield url


@pytest.fixture
def ends_well(undisturbed: Bytes) -> Callable[[Path], None]:
    """Law: the next run ends with the bytes of an undisturbed one, and then nothing is left to do."""

    def check(root: Path) -> None:
        tiny_project.graft(root, "stage", "sources", *tiny_project.ADDRESSES)
        assert bytes_of(root) == undisturbed

    return check
