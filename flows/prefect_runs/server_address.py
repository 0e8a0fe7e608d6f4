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
        return
    except ValidationError as error:
        first = error.errors()[0]
        refused = f"{error.title}.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except ValueError as error:  # of a file that is no TOML
        refused = str(error)
    raise GraftError(f"prefect: {refused}; correct that setting, a variable PREFECT_… or a file")
