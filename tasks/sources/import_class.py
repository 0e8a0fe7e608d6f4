"""Import of a user's class, which a param names as module:CLASS."""

from importlib import import_module
from typing import Any

from tasks.errors import GraftError


def new_instance(param: str, name: str) -> Any:
    """An instance of `module:CLASS`, constructed without arguments. Raises GraftError that names the param."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise GraftError(
            f"{param}: {name}: {error}; name a class that needs no arguments, as module:CLASS, in a module that "
            "Python finds from the project's folder"
        ) from error
