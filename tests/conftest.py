"""The environment that `graft` sets, shared fixtures, Hypothesis profiles, and the order of the test files."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from flows.process import settings as process_settings
from tests.support.policies import make_policy, make_samples, make_solver, make_trajectory, save_tiny  # noqa: F401
from tests.support.projects import by_graft, copy, database, done, on_postgres, on_sqlite, prefect_api  # noqa: F401

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores
process_settings.set_environment()  # before torch, dvc or prefect is imported by any test
for profile, examples in {"fast": 25, "nightly": 1000}.items():
    settings.register_profile(profile, deadline=None, derandomize=True, max_examples=examples)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

FIRST = ("e2e", "integration", "faults", "attacks", "project")
"""Folders of the files that take longest: with several workers they begin first, so that all end at about one time."""

# Started in the background of a script, this process and all that it starts would ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def dvc_site_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """DVC's memory of file hashes, kept out of the machine's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path_factory.mktemp("site")))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folders = {item: item.path.relative_to(Path(__file__).parent).parts[0] for item in items}
    items.sort(key=lambda item: FIRST.index(folders[item]) if folders[item] in FIRST else len(FIRST))
