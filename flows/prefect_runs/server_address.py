"""Prefect's settings by the user: a check, and the place that names the server."""

import os
import tomllib
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from tasks.errors import GraftError

NAME = "PREFECT_API_URL"


def check_settings() -> None:
    """Raise GraftError for settings of the environment or a file that Prefect refuses."""
    try:
        from prefect.settings import get_current_settings

        get_current_settings()
    except ValueError as error:  # pydantic's of a value, or that of a file that is no TOML
        raise GraftError(f"prefect: {_setting(error)}; correct that setting, a variable PREFECT_… or a file") from None


def _setting(error: ValueError) -> str:
    """The first setting that Prefect refuses, and why."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}"


def remedy() -> str:
    """The words of an error about a server that does not answer.

    Prefect reads its address from the environment, `.env`, `prefect.toml`, `pyproject.toml` or a profile.
    """
    return f"start that server, or {_removal()} to do without"


def _removal() -> str:
    if os.environ.get(NAME):
        return f"unset {NAME}"
    if dotenv_values(".env").get(NAME):
        return f"remove {NAME} from {Path('.env').resolve()}"
    for file, table in (("prefect.toml", ("api", "url")), ("pyproject.toml", ("tool", "prefect", "api", "url"))):
        if _value(Path(file), table):
            return f"remove {'.'.join(table)} from {Path(file).resolve()}"
    from prefect.context import get_settings_context

    profile = get_settings_context().profile
    return f"remove {NAME} from the profile {profile.name} in {profile.source}"


def _value(file: Path, table: tuple[str, ...]) -> Any:
    """None if the file or the key is not there."""
    try:
        value: Any = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    for key in table:
        value = value.get(key) if isinstance(value, dict) else None
    return value
