"""Prefect's settings by the user: a check, and the words about the one that names the server."""

from pydantic import ValidationError

from tasks.errors import GraftError

REMEDY = (
    "start that server, or unset PREFECT_API_URL to do without: prefect config view says which variable or file sets it"
)
"""The end of an error about a server that does not answer."""


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
