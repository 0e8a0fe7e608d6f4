"""Code: Python functions, checked by unit tests. `environment: recipes.code:Code`."""


def __getattr__(name: str) -> object:
    """The environment, imported late: the sandbox imports `recipes.code.harness`, where no package is installed."""
    if name != "Code":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recipes.code.environment import Code

    return Code
