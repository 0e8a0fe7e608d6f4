"""Texts of unit tests, changed so that each assert reports and the next one runs, and their imports.

An import is of a module that is there, or of one that stands for the program under test. Standard library only.
"""

import ast
import builtins
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from recipes.code.harness.cases import CANDIDATE, TestCases
from recipes.code.harness.failure import TESTS
from tasks.programs.code_blocks import parsed
from tasks.programs.sandbox.determinism import Findings
from tasks.programs.sandbox.run_program import end_prompt

COUNT = "__count_test__"
"""The function that a test calls with True if it has passed, else with False."""

_TEXTS_KEPT = 64  # compiled: a problem's tests run for each completion of its group

_PROGRAM = "solution"
"""Name of the program's module in tests of public data sets."""


class Text:
    """A text that belongs to the tests, compiled.

    `free_names`: what it reads beyond the built-in functions. `keeps_state`: it might change what later tests find.
    """

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self.keeps_state = Findings(tree).may_keep_state
        self._change(tree)
        self._compiled = compile(tree, TESTS, "exec", dont_inherit=True)
        self.free_names = {name for name in _names(self._compiled) if not hasattr(builtins, name)}

    def run(self, namespace: dict[str, Any], failed: Callable[[Exception], object]) -> bool:
        """True if it ran to its end, tests that failed included; `failed` is called with what was raised elsewhere."""
        try:
            self._run(namespace)
        except Exception as error:  # noqa: BLE001 (of a text of the tests)
            failed(error)
            return False
        return True

    def _change(self, tree: ast.Module) -> None:
        """What is compiled is the text as it is."""

    def _run(self, namespace: dict[str, Any]) -> None:
        exec(self._compiled, namespace)


class CountedTests(Text):
    """A text of tests.

    They are the asserts at the top level and in a function `check`, which is called with the function under test, and
    test functions and classes as pytest and unittest run them (cases.py), one test each. If there are none,
    the calls at those places are the tests: those of a function that compares, say.

    `count`: how many there are, by the syntax. `is_exact`: none of them is in a loop. `faults`: why a test would never
    run, in words.
    """

    def __init__(self, text: str, entry_point: str) -> None:
        self.count = 0
        self.is_exact = True
        self._entry_point = entry_point
        super().__init__(text)

    def _change(self, tree: ast.Module) -> None:
        self._cases = TestCases(tree, self._entry_point)
        self.imports = TestImports(tree, self._entry_point)
        self.faults = [*(f"{name} is not there to import" for name in self.imports.missing), *self._cases.faults]
        checks = [self._cases.check] if self._cases.check else []
        lists = [block for place in (tree, *checks) for block in _lists(place)]
        for statements, _ in lists:
            for place, node in enumerate(statements):
                if self._cases.starts(node):
                    statements[place] = ast.copy_location(ast.Pass(), node)
        is_test = _is_assert
        if not any(_is_assert(node) for block, _ in lists for node in block):
            is_test = self._is_comparison
            lists = [] if self._cases.count else lists
        for statements, is_loop in lists:
            for place, node in enumerate(statements):
                if is_test(node):
                    self.count += 1
                    self.is_exact &= not is_loop
                    statements[place] = _counted(node)
        self.count += self._cases.count
        self.is_exact &= self._cases.is_exact

    def _run(self, namespace: dict[str, Any]) -> None:
        super()._run(namespace)
        self._cases.run(namespace, namespace[self._entry_point], namespace[COUNT])

    def _is_comparison(self, node: ast.stmt) -> bool:
        """True for a call of a function that may compare: not the one under test, nor a built-in one such as print."""
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            return False
        name = node.value.func.id if isinstance(node.value.func, ast.Name) else None
        return name not in (self._entry_point, CANDIDATE) and not (name and hasattr(builtins, name))


counted_tests = lru_cache(_TEXTS_KEPT)(CountedTests)
setup_text = lru_cache(_TEXTS_KEPT)(Text)
"""These two raise SyntaxError."""


@lru_cache(_TEXTS_KEPT)
def prompt_text(prompt: str) -> Text:
    """The imports and functions of a prompt; nothing if it does not parse."""
    ended = end_prompt(prompt)
    return Text(ended if parsed(ended) else "")


def _counted(node: ast.stmt) -> ast.stmt:
    """The statement in a `try` that reports it."""
    return ast.copy_location(ast.Try([node], _REPORT.handlers, _REPORT.orelse, []), node)


_REPORT: Any = ast.parse(f"try: pass\nexcept Exception: {COUNT}(False)\nelse: {COUNT}(True)").body[0]


def _lists(place: ast.AST, in_loop: bool = False) -> Iterator[tuple[list[ast.stmt], bool]]:
    """The lists of statements of a module or function, its loops and branches, without those of functions in it; each
    with whether it is in a loop.
    """
    in_loop |= isinstance(place, ast.For | ast.While)
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(place, name, ())
        if statements:
            yield statements, in_loop
        for node in statements:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                yield from _lists(node, in_loop)
    for handler in getattr(place, "handlers", ()):
        yield from _lists(handler, in_loop)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that code and its functions read beyond their own."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_assert(node: ast.stmt) -> bool:
    """True but for `assert True`, which tests nothing."""
    return isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant)


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
