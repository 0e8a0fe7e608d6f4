"""Prefect's settings by the user: a check of them and of the server, and the words about the one that names it."""

import time
from contextlib import suppress

import httpx
from pydantic import ValidationError

from tasks.errors import GraftError

REMEDY = (
    "start that server, or unset PREFECT_API_URL to do without: prefect config view says which variable or file sets it"
)
"""The end of an error about a server that does not answer."""

LONGEST = 1_000_000
"""Most bytes of an answer about a server's health, which Prefect gives in four."""

LIMIT = 10.0
"""Seconds until it ends."""


def check_settings() -> None:
    """Raise GraftError for settings of the environment or a file that Prefect refuses."""
    try:
        from prefect.settings import get_current_settings

        get_current_settings()
        return
    except ValidationError as error:
        first = error.errors()[0]
        refused = f"{error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except ValueError as error:  # of a file that is no TOML
        refused = str(error)
    raise GraftError(f"prefect: {refused}; correct that setting, a variable PREFECT_… or a file")


def refuse_endless_answer(url: str) -> None:
    """Raise GraftError if what answers at the address of a server does not end: Prefect's client would read for ever.

    All else that may be wrong with it is left to that client.
    """
    limit, size = time.monotonic() + LIMIT, 0
    with suppress(httpx.HTTPError, httpx.InvalidURL), httpx.stream("GET", f"{url}/health", timeout=LIMIT) as answer:
        for part in answer.iter_raw():
            size += len(part)
            if size > LONGEST or time.monotonic() > limit:
                raise GraftError(
                    f"prefect: what answers at {url} is no Prefect server: its answer has no end; {REMEDY}"
                )
