"""The fixture `sandbox`."""

from collections.abc import Iterator

import pytest

from tasks.programs.sandbox.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=True, workers=1) as sandbox:
        yield sandbox
