"""Prefect's settings by the user: a check of them and of the server, and the words about the one that names it."""

import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Any

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
    """Raise GraftError that names variable or file and value for settings that Prefect refuses, or could not use."""
    told = StringIO()  # what the import of Prefect says, which is nothing new where a setting is refused
    try:
        with redirect_stderr(told), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from prefect.settings import get_current_settings

            url = get_current_settings().api.url
    except ValidationError as error:
        raise GraftError(_refusal(error)) from None
    except TOMLDecodeError as error:
        raise GraftError(f"{_profiles()}: no TOML: {error}; correct it, or remove the file") from None
    except ValueError as error:  # of another file, which it names
        raise GraftError(f"prefect: {error}; correct that setting, a variable PREFECT_… or a file") from None
    print(told.getvalue(), file=sys.stderr, end="")
    if url is not None and not re.match("https?://[^/]", url):
        raise GraftError(_wrong(["PREFECT_API_URL"], url, "should be an address like http://127.0.0.1:4200/api"))


def _refusal(error: ValidationError) -> str:
    """The first setting that Prefect refuses."""
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not first["loc"]:  # settings that do not fit together
        return f"prefect: {message}; correct one of the two, a variable PREFECT_… or a setting in a file"
    allowed = message.partition(", unable to ")[0]
    return _wrong(_variables(error.title, str(first["loc"][0])), str(first["input"]), allowed)


def _wrong(variables: Sequence[str], value: str, allowed: str) -> str:
    """`variables`: the names of one setting, of which one has the value, or a file has it."""
    name = next((name for name in variables if name in os.environ), None)
    if name is not None:
        return f"{name}: {allowed}, not {value!r}; correct it, or unset {name}"
    files = (Path(".env"), Path("prefect.toml"), Path("pyproject.toml"), _profiles())
    place = next((file for file in files if file.is_file() and value in file.read_text(errors="replace")), "a file")
    return f"{variables[0]}, in {place}: {allowed}, not {value!r}; correct it, or remove it there"


def _variables(settings: str, field: str) -> list[str]:
    """The variables of a field of a class of settings, which has one by its name and others by older names."""
    from prefect.settings.base import PrefectBaseSettings

    kinds: list[Any] = [PrefectBaseSettings]
    for kind in kinds:
        kinds += kind.__subclasses__()
    (section,) = (kind for kind in kinds if kind.__name__ == settings)
    names = [f"{section.model_config['env_prefix']}{field}"]
    names += [
        name for name in getattr(section.model_fields[field].validation_alias, "choices", ()) if type(name) is str
    ]
    return [name.upper() for name in names]


def _profiles() -> Path:
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect"))
    return Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")).expanduser()


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
