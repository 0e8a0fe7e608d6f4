"""Names in code: those that its top level defines, and those that it reads and nothing in it binds.

Standard library only, since the sandbox's zygote imports it.
"""

import ast
import builtins
from collections.abc import Iterator


def defined_names(tree: ast.Module) -> set[str]:
    """The names that functions, classes and assignments at the top level define."""
    return {name for node in tree.body for name in _names(node)}


def provided_names(tree: ast.Module) -> set[str]:
    """The defined names and those that imports at the top level bind."""
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return defined_names(tree) | {_bound_by(alias) for node in imports for alias in node.names}


def lacking_names(tree: ast.Module) -> set[str]:
    """The names that code reads, but for the built-in ones and those that it binds anywhere."""
    read, bound = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                bound.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound.add(name)
            case ast.alias():
                bound.add(_bound_by(node))
    return {name for name in read - bound if not hasattr(builtins, name)}


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for each in (each for target in targets for each in ast.walk(target)):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]
