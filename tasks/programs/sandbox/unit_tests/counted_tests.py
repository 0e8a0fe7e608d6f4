"""Texts of unit tests, changed so that each assert reports and the next one runs. Standard library only."""

import ast
import builtins
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tasks.programs.sandbox.determinism import Findings
from tasks.programs.sandbox.unit_tests.program_parts import end_prompt, parsed

COUNT = "__count_test__"
"""The function that a test calls with True if it has passed, else with False."""

_CHECK = "check"

_REPORTED = f"try: pass\nexcept Exception: {COUNT}(False)\nelse: {COUNT}(True)"

_TEXTS_KEPT = 64  # compiled: a problem's tests run for each completion of its group


class Text:
    """A text that belongs to the tests, compiled.

    `free_names`: what it reads beyond the built-in functions. `keeps_state`: it might change what later tests find.
    """

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self.keeps_state = Findings(tree).may_keep_state
        self._change(tree)
        self._compiled = compile(tree, "<tests>", "exec", dont_inherit=True)
        self.free_names = {name for name in _names(self._compiled) if not hasattr(builtins, name)}

    def run(self, namespace: dict[str, Any]) -> bool:
        """True if it ran to its end, tests that failed included; False if something else raised."""
        try:
            self._run(namespace)
        except Exception:  # noqa: BLE001 (of a text of the tests)
            return False
        return True

    def _change(self, tree: ast.Module) -> None:
        """What is compiled is the text as it is."""

    def _run(self, namespace: dict[str, Any]) -> None:
        exec(self._compiled, namespace)


class CountedTests(Text):
    """A text of tests; `count`: how many there are.

    They are the asserts at the top level and in a function `check(candidate)`, which is called with the function under
    test. If there are none, the calls there are the tests: those of a function that compares, say.
    """

    def __init__(self, text: str, entry_point: str) -> None:
        self.count = 0
        self._has_check = False
        self._entry_point = entry_point
        super().__init__(text)

    def _change(self, tree: ast.Module) -> None:
        checks = [node for node in tree.body if _is_check(node)]
        self._has_check = bool(checks)
        lists = [each for place in (tree, *checks) for each in _lists(place)]
        is_test = _is_assert if any(_is_assert(node) for each in lists for node in each) else _is_call
        for statements in lists:
            for place, node in enumerate(statements):
                if is_test(node):
                    self.count += 1
                    statements[place] = _counted(node)

    def _run(self, namespace: dict[str, Any]) -> None:
        super()._run(namespace)
        if self._has_check:
            namespace[_CHECK](namespace[self._entry_point])


@lru_cache(_TEXTS_KEPT)
def counted_tests(text: str, entry_point: str) -> CountedTests:
    """The tests in a text. Raises SyntaxError."""
    return CountedTests(text, entry_point)


@lru_cache(_TEXTS_KEPT)
def setup_text(setup: str) -> Text:
    """The code that is run before the tests. Raises SyntaxError."""
    return Text(setup)


@lru_cache(_TEXTS_KEPT)
def prompt_text(prompt: str) -> Text:
    """The imports and functions of a prompt; nothing if it does not parse."""
    ended = end_prompt(prompt)
    return Text(ended if parsed(ended) else "")


def _counted(node: ast.stmt) -> ast.stmt:
    """The statement in a `try` that reports it."""
    return ast.copy_location(ast.Try([node], _REPORT.handlers, _REPORT.orelse, []), node)


def _template() -> ast.Try:
    (template,) = ast.parse(_REPORTED).body
    assert isinstance(template, ast.Try)
    return template


_REPORT = _template()


def _lists(place: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a module or function, its loops and branches, without those of functions in it."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(place, name, ())
        if statements:
            yield statements
        for node in statements:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                yield from _lists(node)
    for handler in getattr(place, "handlers", ()):
        yield from _lists(handler)


def _names(code: types.CodeType) -> Iterator[str]:
    """The names that code and its functions read beyond their own."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_check(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == _CHECK and len(node.args.args) == 1


def _is_assert(node: ast.stmt) -> bool:
    """True but for `assert True`, which tests nothing."""
    return isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant)


def _is_call(node: ast.stmt) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    return not (isinstance(node.value.func, ast.Name) and node.value.func.id == _CHECK)
