"""Modules that code under test imports and that the sandbox does not have: the reason why it passes no test."""

import ast
from collections.abc import Iterable, Iterator, Sequence

from tasks.programs.sandbox.modules import MODULES
from tasks.programs.sandbox.sandbox import Program, Sandbox


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """The modules that code imports, the outermost first, but for those in a `try`, which it can do without."""
    nodes = [tree]
    for each in nodes:  # which grows
        match each:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Try():
                continue
            case node:
                nodes.extend(ast.iter_child_nodes(node))


def missing_modules(sandbox: Sandbox, modules: Iterable[str]) -> set[str]:
    """Those of these modules that a program cannot import."""
    tried = sorted(set(modules) - set(MODULES))
    programs = [Program(f"import {module}\ndef solve(problem): return 1\n", ("",)) for module in tried]
    results: Sequence[str] = [str(result.error) for (result,) in sandbox.run(programs)] if tried else []
    return {name for name, error in zip(tried, results, strict=True) if error.startswith("ModuleNotFoundError: ")}


def reason_of(module: str) -> str:
    """The reason in words."""
    return f"module {module} is not available in the sandbox; available: {', '.join(MODULES)}"
