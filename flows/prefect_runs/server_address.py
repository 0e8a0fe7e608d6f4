"""The address of the user's Prefect server, and the place that names it."""

import os
import tomllib
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

NAME = "PREFECT_API_URL"


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
