"""Imports of tests: modules that are there, and those that stand for the program under test. Standard library only."""

import ast
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_PROGRAM = "solution"
"""Name of the program's module in tests of public data sets."""


class TestImports:
    """The imports in a text of tests, in which relative ones become absolute; no class of pytest's.

    `of_program`: modules that stand for the program under test: not there, and the text takes its function from them.
    `missing`: what else is not there, outside of `try`.
    """

    __test__ = False

    def __init__(self, tree: ast.Module, entry_point: str) -> None:
        self.of_program: set[str] = set()
        self.missing: list[str] = []
        read = {
            node.value.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr == entry_point and isinstance(node.value, ast.Name)
        }
        for node in _outside_try(tree.body):
            if isinstance(node, ast.ImportFrom):
                self._add_names(node, entry_point)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self._add(alias.name, (alias.asname or alias.name) in read)

    def install(self, function: Callable[[str], Any]) -> None:
        """Make the program's modules importable; `function` gives what is in them."""
        for name in self.of_program - sys.modules.keys():
            sys.modules[name] = _ProgramModule(name, function)

    def _add_names(self, node: ast.ImportFrom, entry_point: str) -> None:
        if node.level:
            node.level, node.module = 0, node.module or _PROGRAM
        module, names = str(node.module), [alias.name for alias in node.names]
        self._add(module, bool({entry_point, "*"}.intersection(names)))
        if module in sys.modules and not isinstance(sys.modules[module], _ProgramModule):
            lacking = (name for name in names if name != "*" and not hasattr(sys.modules[module], name))
            self.missing += [f"{module}.{name}" for name in lacking]

    def _add(self, module: str, takes_function: bool) -> None:
        if module in sys.modules or module in self.of_program:
            return
        if takes_function or module == _PROGRAM:
            self.of_program.add(module)
        else:
            self.missing.append(module)


class _ProgramModule(types.ModuleType):
    def __init__(self, name: str, function: Callable[[str], Any]) -> None:
        super().__init__(name)
        self.__dict__["_function"] = function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["_function"](name)


def _outside_try(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in statements:
        if not isinstance(node, ast.Try):
            yield node
            yield from _outside_try(list(ast.iter_child_nodes(node)))
