"""Functions and classes of tests as pytest and unittest run them, and `check`. Standard library only."""

import ast
import unittest
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

CANDIDATE = "candidate"
"""Name of the function under test in tests of any problem."""

CHECK = "check"
"""Name of a function that is called with the function under test, or without arguments."""

Count = Callable[[bool], None]
"""Called with True for a test that has passed, else with False, while its exception is handled."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class TestCases:
    """The functions and methods in a text of tests that are called after it has run; no class of pytest's.

    `check`: the function of that name, whose asserts are counted apart. `count`: how many others there are; `is_exact`:
    none is called several times. `faults`: why a test would never run, in words.
    """

    __test__ = False

    def __init__(self, tree: ast.Module, entry_point: str) -> None:
        self.check: ast.FunctionDef | None = None
        self.is_exact = True
        self.faults: list[str] = []
        self._functions: dict[str, set[str]] = {}  # name → the parameters that are the function under test
        self._methods: dict[str, list[str]] = {}  # class → the names of its tests
        self._unittest: set[str] = set()  # those of them that unittest runs
        self._arguments = (CANDIDATE, entry_point)
        self._mains = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "unittest"
            for alias in node.names
            if alias.name == "main"
        }
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self._add_class(node)
            elif isinstance(node, _Function) and node.name == CHECK:
                self._add_check(node)
            elif isinstance(node, _Function) and node.name.startswith("test"):
                self._add_function(node, used)
        self.count = len(self._functions) + sum(map(len, self._methods.values()))

    def starts(self, node: ast.stmt) -> bool:
        """True for a statement that starts the tests: they are started here, once."""
        call = node.value if isinstance(node, ast.Expr) else None
        match call:
            case ast.Call(func=ast.Name(id=name)):
                return name in self._functions or name in self._mains or (self.check is not None and name == CHECK)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="unittest" | "pytest"), attr="main")):
                return True
        return False

    def run(self, namespace: dict[str, Any], function: Callable[..., Any], count: Count) -> None:
        """Run all in a namespace in which the text has been executed. Raises what `check` raises."""
        if self.check is not None:
            namespace[CHECK](*[function] if _positional(self.check) else [])
        for name, takes in self._functions.items():
            test = namespace[name]
            cases: Sequence[dict[str, Any]] = getattr(test, "cases", ({},))
            for case in cases:
                _count(partial(test, **dict.fromkeys(takes, function) | case), count)
        for name, methods in self._methods.items():
            run = _run_unittest if name in self._unittest else _run_method
            for method in methods:
                _count(partial(run, namespace[name], method), count)

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
        listed = set(_parametrized(node))
        if missing := names - takes - listed:
            if node.name not in used:
                self.faults.append(
                    f"{node.name} needs {', '.join(sorted(missing))}; fixtures are not there: write it out"
                )
        elif isinstance(node, ast.AsyncFunctionDef):
            self.faults.append(f"{node.name} is async, so that it would not run; write def {node.name}")
        else:
            self.is_exact &= not node.decorator_list
            self._functions[node.name] = takes

    def _add_class(self, node: ast.ClassDef) -> None:
        bases = [getattr(base, "attr", getattr(base, "id", "")) for base in node.bases]
        methods = {name: None for base in bases for name in self._methods.get(base, ())}
        for method in node.body:
            if isinstance(method, _Function) and method.name.startswith("test"):
                methods[method.name] = None
                if isinstance(method, ast.AsyncFunctionDef) or len(_required(method)) > 1 or method.decorator_list:
                    self.faults.append(f"{node.name}.{method.name} is async, decorated or has parameters; write it out")
        is_unittest = any(name.endswith("TestCase") or name in self._unittest for name in bases)
        if is_unittest:
            self._unittest.add(node.name)
        if is_unittest or (node.name.startswith("Test") and all(base in self._methods for base in bases)):
            self._methods[node.name] = list(methods)


def _run_method(kind: Any, method: str) -> None:
    instance = kind()
    getattr(instance, "setup_method", lambda: None)()
    getattr(instance, method)()


def _run_unittest(kind: Any, method: str) -> None:
    result = unittest.TestResult()
    unittest.TestSuite([kind(method)]).run(result)  # a suite calls setUpClass as well
    if result.skipped or not result.wasSuccessful():
        raise AssertionError(*(text for _, text in (*result.errors, *result.failures, *result.skipped)))


def _count(test: Callable[[], object], count: Count) -> None:
    try:
        test()
    except Exception:  # noqa: BLE001 (of a test)
        count(False)
    else:
        count(True)


def _positional(node: _Function) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args]


def _required(node: _Function) -> list[str]:
    """The parameters without a default."""
    positional = _positional(node)
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    required = positional[: len(positional) - len(node.args.defaults)]
    return [parameter.arg for parameter in (*required, *(arg for arg, default in named if default is None))]


def _parametrized(node: _Function) -> Iterator[str]:
    """The parameters that `pytest.mark.parametrize` gives."""
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[ast.Constant(value=str(names)), *_]):
                yield from parameters_in(names)
            case ast.Call(
                func=ast.Attribute(attr="parametrize"), args=[ast.Tuple(elts=names) | ast.List(elts=names), *_]
            ):
                yield from (str(name.value) for name in names if isinstance(name, ast.Constant))


def parameters_in(names: str) -> list[str]:
    """The names in "a, b"."""
    return [name.strip() for name in names.split(",") if name.strip()]
