"""Tiny projects that are finished already, computed once for all tests and copied for each."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import postgres, servers, tiny_project


@pytest.fixture(scope="session")
def by_graft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that `graft` computed, all stages in one process. Not to be changed."""
    root = tiny_project.make(tmp_path_factory.mktemp("graft") / "project")
    tiny_project.graft(root, "stage", *tiny_project.ADDRESSES)
    assert tiny_project.ran(root) == tiny_project.ADDRESSES
    return root


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    """A project's copy to work on, cache and all."""

    def copied(project: Path) -> Path:
        root = tmp_path / "project"
        shutil.copytree(project, root)
        return root

    return copied


@pytest.fixture
def done(by_graft: Path, copy: Callable[[Path], Path]) -> Path:
    """A finished project to work on."""
    return copy(by_graft)


@pytest.fixture(scope="session")
def database() -> Iterator[postgres.Postgres]:
    """Postgres, where it is installed."""
    if postgres.PROGRAMS is None:
        pytest.skip(postgres.ABSENT)
    with postgres.cluster() as running:
        yield running


@pytest.fixture(scope="session")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Servers]:
    """Prefect's and MLflow's servers, each on a file."""
    with servers.both(tmp_path_factory.mktemp("on-sqlite")) as running:
        yield running


@pytest.fixture(scope="session")
def prefect_api(on_sqlite: servers.Servers) -> str:
    """The address of that Prefect, which all tests share: look for your own runs by their workspace."""
    return f"{on_sqlite.prefect.url}/api"


@pytest.fixture(scope="session")
def on_postgres(tmp_path_factory: pytest.TempPathFactory, database: postgres.Postgres) -> Iterator[servers.Servers]:
    """The same, each on a database of its own."""
    folder = tmp_path_factory.mktemp("on-postgres")
    with servers.both(folder, database.make("prefect"), database.make("mlflow")) as running:
        yield running
