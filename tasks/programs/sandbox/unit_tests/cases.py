"""Test functions as pytest runs them, and `check`. Standard library only."""

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

CANDIDATE = "candidate"
"""Name of the function under test in tests of any problem."""

CHECK = "check"
"""Name of a function that is called with the function under test, or without arguments."""

Count = Callable[[bool], None]
"""Called with True for a test that has passed, else with False."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class TestCases:
    """The functions in a text of tests that are called after it has run; no class of pytest's.

    `check`: the function of that name, whose asserts are counted apart. `count`: how many others there are. `faults`:
    why a test would never run, in words.
    """

    __test__ = False

    def __init__(self, tree: ast.Module, entry_point: str) -> None:
        self.check: ast.FunctionDef | None = None
        self.faults: list[str] = []
        self._functions: dict[str, set[str]] = {}  # name → the parameters that are the function under test
        self._arguments = (CANDIDATE, entry_point)
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self._refuse_tests(node)
            elif isinstance(node, _Function) and node.name == CHECK:
                self._add_check(node)
            elif isinstance(node, _Function) and node.name.startswith("test"):
                self._add_function(node, used)
        self.count = len(self._functions)

    def starts(self, node: ast.stmt) -> bool:
        """True for a statement that starts the tests: they are started here, once."""
        call = node.value if isinstance(node, ast.Expr) else None
        match call:
            case ast.Call(func=ast.Name(id=name)):
                return name in self._functions or (self.check is not None and name == CHECK)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="pytest"), attr="main")):
                return True
        return False

    def run(self, namespace: dict[str, Any], function: Callable[..., Any], count: Count) -> None:
        """Run all in a namespace in which the text has been executed. Raises what `check` raises."""
        if self.check is not None:
            namespace[CHECK](*[function] if _positional(self.check) else [])
        for name, takes in self._functions.items():
            count(_passes(partial(namespace[name], **dict.fromkeys(takes, function))))

    def _add_check(self, node: _Function) -> None:
        required = len(_positional(node)) - len(node.args.defaults)
        if isinstance(node, ast.AsyncFunctionDef):
            self.faults.append("check is async, so that it would not run; write def check")
        elif required > 1 or None in node.args.kw_defaults:
            self.faults.append("check needs more than the function under test; give it one parameter")
        else:
            self.check = node

    def _add_function(self, node: _Function, used: set[str]) -> None:
        """A function with parameters that the text itself calls is no test, but a part of one."""
        names = set(_required(node))
        takes = names.intersection(self._arguments)
        if missing := names - takes:
            if node.name not in used:
                self.faults.append(
                    f"{node.name} needs {', '.join(sorted(missing))}; fixtures and parametrize are not there: write it "
                    "out"
                )
        elif isinstance(node, ast.AsyncFunctionDef) or node.decorator_list:
            self.faults.append(f"{node.name} is async or decorated, so that it would not run; write def {node.name}")
        else:
            self._functions[node.name] = takes

    def _refuse_tests(self, node: ast.ClassDef) -> None:
        methods = [each.name for each in node.body if isinstance(each, _Function) and each.name.startswith("test")]
        if methods:
            self.faults.append(f"{node.name}.{methods[0]} is a method, which is not run; write a function {methods[0]}")


def _passes(test: Callable[[], object]) -> bool:
    try:
        test()
    except Exception:  # noqa: BLE001 (of a test)
        return False
    return True


def _positional(node: _Function) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args]


def _required(node: _Function) -> list[str]:
    """The parameters without a default."""
    positional = _positional(node)
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    required = positional[: len(positional) - len(node.args.defaults)]
    return [each.arg for each in (*required, *(arg for arg, default in named if default is None))]
