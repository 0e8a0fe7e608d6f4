"""A browser for the tests that look at pages."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Page, browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of Chromium."""
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page
