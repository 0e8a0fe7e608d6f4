"""The user's classes and functions in this process, which params name as module:NAME.

A module is found from the project's folder. What is known of it before a run, and its digest, is in user_modules.py.
"""

import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tasks.errors import GraftError

OF_PROJECT = "in a module that Python finds from the project's folder"


def find_modules_in(root: Path | None, *names: str) -> None:
    """Let this process find the modules of the project's folder, where one of the names is of a user's module.

    Only there: a file of the folder may be called as a module of Python is.
    """
    if root is not None and str(root) not in sys.path and any(":" in name for name in names):
        sys.path.insert(0, str(root))


def new_instance(param: str, name: str, *arguments: str) -> Any:
    """An instance of `module:CLASS`, constructed with these arguments. Raises GraftError that names the param."""
    try:
        return _imported(name)(*arguments)
    except (ImportError, AttributeError, TypeError) as error:
        wanted = f"name a class that needs {len(arguments) or 'no'} arguments, as module:CLASS, {OF_PROJECT}"
        raise GraftError(f"{param}: {name}: {error}; {wanted}") from error


def load(param: str, name: str) -> Any:
    """The function, or what else is there, of `module:NAME`. Raises GraftError that names the param."""
    try:
        return _imported(name)
    except (ImportError, AttributeError) as error:
        raise GraftError(f"{param}: {name}: {error}; name a function, as module:function, {OF_PROJECT}") from error


def call(param: str, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's value. What it raises becomes a GraftError that names the param and the line."""
    try:
        return function(*arguments)
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[:2][-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        raise GraftError(f"{param}: {name}: {type(error).__name__}: {error} ({place}); fix it") from error


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
