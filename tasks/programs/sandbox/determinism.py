"""Static check whether a program could give another answer in a second run.

In the sandbox the hash seed and the seed of `random` are fixed and no file can be read. What still differs from run to
run is clocks, the kernel's random numbers and memory addresses, which are visible in `id`, in the text of functions and
iterators, and in the order of sets of such objects. A program that uses none of these, and only modules and attributes
from the lists below, is deterministic. Any other program may differ; that costs a second run (sandbox.py), so the
check answers yes whenever it is in doubt.
"""

import ast
import builtins
import collections
import decimal
import fractions
import importlib
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

from tasks.programs.operators.builtin import OPERATORS
from tasks.programs.operators.model_calls import MODEL_OPERATORS

# fmt: off
_SAFE_BUILTINS = frozenset((
    "abs", "all", "any", "ascii", "bin", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter",
    "float", "frozenset", "hex", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next",
    "oct", "ord", "pow", "print", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple",
    "zip", "True", "False", "None", "NotImplemented", "Ellipsis", "ArithmeticError", "AssertionError",
    "AttributeError", "Exception", "IndexError", "KeyError", "LookupError", "NameError", "OverflowError",
    "RuntimeError", "StopIteration", "SyntaxError", "TypeError", "UnboundLocalError", "UnicodeDecodeError",
    "UnicodeEncodeError", "UnicodeError", "ValueError", "ZeroDivisionError",
))
_RISKY_BUILTINS = (frozenset(dir(builtins)) - _SAFE_BUILTINS) | {"run", "test"}  # the operators that run any code
_PURE_MODULES = (
    "bisect", "cmath", "collections", "decimal", "fractions", "functools", "heapq", "itertools", "json", "math",
    "numbers", "operator", "re", "statistics", "string", "textwrap", "typing", "unicodedata",
)
_PURE_TYPES = (
    str, bytes, list, tuple, dict, set, frozenset, int, float, complex, range, collections.Counter, collections.deque,
    collections.OrderedDict, fractions.Fraction, decimal.Decimal, re.Pattern, re.Match,
)
_REACHING = frozenset((  # attributes that access others by name, inspect objects, or wrap functions
    "attrgetter", "methodcaller", "partial", "partialmethod", "format", "format_map", "Formatter", "get_type_hints",
    "no_type_check", "wraps", "update_wrapper", "singledispatch", "singledispatchmethod", "ForwardRef", "mod", "imod",
))
_VALUES = frozenset((  # attributes that are not methods
    "pi", "e", "tau", "inf", "nan", "real", "imag", "numerator", "denominator", "I", "M", "S", "X", "A", "IGNORECASE",
    "MULTILINE", "DOTALL", "VERBOSE", "ASCII", "ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits",
    "punctuation", "whitespace", "maxlen", "string", "pattern", "pos", "endpos", "lastindex", "lastgroup",
))
# fmt: on


def _public(module: str) -> frozenset[str]:
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or dir(loaded)
    return frozenset(name for name in names if not name.startswith("_"))


_ATTRIBUTES = frozenset(name for kind in _PURE_TYPES for name in dir(kind)).union(*map(_public, _PURE_MODULES))
_SAFE_ATTRIBUTES = frozenset(name for name in _ATTRIBUTES - _REACHING if not name.startswith("_"))

_TEXTS = frozenset(("str", "repr", "ascii"))
_SETS = frozenset(("set", "frozenset"))
_VIEWS = frozenset(("keys", "items"))  # of a dict; `&` and the like make sets of them
# fmt: off
_LAZY = frozenset(("map", "filter", "zip", "enumerate", "reversed", "iter", "finditer", "merge")) | (
    _public("itertools") - {"count", "repeat"}  # lists have `count` too; the text of these two shows no address
)
_CONSUMES = _LAZY | frozenset((  # functions that take an iterable and keep only its elements
    "all", "any", "dict", "frozenset", "list", "max", "min", "next", "set", "sorted", "sum", "tuple", "join", "extend",
    "update", "fsum", "prod", "Counter", "deque", "reduce", "mean", "median", "mode", "majority",
))
_IGNORES_ORDER = frozenset(("len", "sum", "any", "all"))  # not sorted, max, min: a NaN's hash varies
_TAKES_FUNCTION = frozenset(("map", "filter", "sorted", "min", "max", "sort", "reduce", "groupby", "takewhile"))
# fmt: on
_TRUSTED = _CONSUMES | _IGNORES_ORDER | _TAKES_FUNCTION

_WORD = re.compile(r"[A-Za-z_]\w*")
_SUSPECT_WORDS = _RISKY_BUILTINS | _TEXTS | _SETS | {"import", "class", "async", "await", "with", "match"}
_SUSPECT_CHARACTER = re.compile(r"__|\.(?!\d)|[%{]")


@lru_cache(maxsize=4096)
def may_differ(code: str) -> bool:
    """Whether a successful program could give another answer in another run; True if in doubt."""
    return _is_suspect(code) and tree_may_differ(code)


def tree_may_differ(code: str) -> bool:
    """`may_differ` by the syntax tree alone."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            visit = _Visit(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    return visit.unknown or visit.order or (visit.addresses and visit.texts)


def _is_suspect(code: str) -> bool:
    """Whether it contains anything that needs the syntax tree: takes a fiftieth of the time of parsing."""
    words = _WORD.findall(code)
    return not (code.isascii() and _SUSPECT_WORDS.isdisjoint(words)) or _SUSPECT_CHARACTER.search(code) is not None


class _Visit:
    """Findings in a syntax tree.

    `unknown`: a name that is not in the lists above. `order`: a set whose order may be visible. `addresses`: objects
    whose text would contain their address. `texts`: texts of objects.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.unknown = self.order = self.addresses = self.texts = False
        self._consumed: set[ast.AST] = set()  # iterables and functions that are not kept
        self._unordered: set[ast.AST] = set()
        self._functions = (
            {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
            | OPERATORS.keys()
            | MODEL_OPERATORS.keys()
        )
        self._trusted = _TRUSTED - set(_bound(tree))
        for node in ast.walk(tree):  # parents before children
            self._visit_children(node)
            self._visit(node)

    def _visit_children(self, node: ast.AST) -> None:
        """Note what a node does with its children."""
        match node:
            case ast.For(iter=iterable) | ast.comprehension(iter=iterable):
                self._consumed.add(iterable)
            case ast.Starred(value=iterable):
                self._consumed.add(iterable)
            case ast.Compare(comparators=others):
                self._unordered.update(others)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                self._consumed.add(function)
                name = _called_name(node) if _called_name(node) in self._trusted else ""
                if name in _CONSUMES:
                    self._consumed.update(arguments)
                if name in _IGNORES_ORDER:
                    self._unordered.update(arguments)
                if name in _TAKES_FUNCTION:
                    self._consumed.update([*arguments[:1], *(word.value for word in keywords)])

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                self.unknown |= any(alias.name not in _PURE_MODULES for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                pure = level == 0 and module in _PURE_MODULES
                self.unknown |= not pure or any(alias.name not in _SAFE_ATTRIBUTES for alias in names)
            case (
                ast.ClassDef() | ast.AsyncFunctionDef() | ast.Await() | ast.With() | ast.AsyncWith() | ast.MatchClass()
            ):
                self.unknown = True
            case ast.Name(id=name):
                self.unknown |= name in _RISKY_BUILTINS or name.startswith("__")
                self.texts |= name in _TEXTS
                self.addresses |= name in self._functions and node not in self._consumed
            case ast.Attribute(attr=name):
                self.unknown |= name not in _SAFE_ATTRIBUTES
                self.addresses |= name not in _VALUES and node not in self._consumed
            case ast.FormattedValue():
                self.texts = True
            case ast.BinOp(op=ast.Mod(), left=left):
                self.texts |= not (isinstance(left, ast.Constant) and isinstance(left.value, int | float))
            case ast.Lambda() | ast.GeneratorExp():
                self.addresses |= node not in self._consumed
            case ast.Yield() | ast.YieldFrom():
                self.addresses = True
            case ast.Set() | ast.SetComp():
                self.order |= node not in self._unordered
            case ast.Call():
                name = _called_name(node)
                self.addresses |= name in _LAZY and node not in self._consumed
                self.order |= name in _SETS and node not in self._unordered
                self.order |= name in _VIEWS and node not in self._unordered and node not in self._consumed


def _called_name(node: ast.Call) -> str:
    """The last part of the called name; empty if it is not a name."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _bound(tree: ast.Module) -> Iterator[str]:
    """Names that the program itself binds."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=given):
                if given is not None and given != name:
                    yield given
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
