"""For all tests: the environment that `graft` sets, a memory for DVC, the same examples of Hypothesis each time."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from flows.process import settings as process_settings
from tests.support.policies import make_policy, make_samples, make_solver, make_trajectory, save_tiny  # noqa: F401
from tests.support.projects import by_dvc, by_graft, copy, database, done, on_postgres, on_sqlite, prefect_api  # noqa: F401

process_settings.settle()  # before torch, dvc or prefect is imported by any test
settings.register_profile("graft", deadline=None, derandomize=True)
settings.load_profile("graft")

# Started in the background of a script, this process and all that it starts would ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def dvc_site_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """DVC's memory of file hashes, kept out of the machine's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path_factory.mktemp("site")))
        yield
