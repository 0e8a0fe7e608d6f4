"""Static check whether a program could give another answer in a second run, or change what later programs find.

In the sandbox the hash seed and the seed of `random` are fixed and no file can be read. What still differs from run to
run is clocks, the kernel's random numbers and memory addresses, which are visible in `id`, in the text of functions and
iterators, and in the order of sets of such objects. A program that uses none of these, and only modules and attributes
from the lists below, is deterministic. Any other program may differ; that costs a second run (sandbox.py), so the
check answers yes whenever it is in doubt.

A program leaves no state in its process if, besides, it sets no attribute and uses only modules and functions that keep
nothing. Such programs may share a process, and so may unit tests.
"""

import ast
import builtins
import collections
import decimal
import fractions
import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

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
    "evaluate_forward_ref", "kde_random",  # which draws by the kernel's random numbers
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

# fmt: off
_KEEPS_NOTHING = ("bisect", "cmath", "collections", "heapq", "itertools", "math", "re", "string")
_LISTED_NAMES = {
    "functools": ("cache", "cmp_to_key", "lru_cache", "reduce"),
    "typing": (
        "Any", "Callable", "Deque", "DefaultDict", "Dict", "FrozenSet", "Generator", "Iterable", "Iterator",
        "List", "Literal", "Mapping", "Optional", "Sequence", "Set", "Tuple", "TypeVar", "Union",
    ),
}
# fmt: on
_STATELESS_MODULES = frozenset((*_KEEPS_NOTHING, *_LISTED_NAMES))
_STATELESS_ATTRIBUTES = _SAFE_ATTRIBUTES & (
    frozenset(name for kind in _PURE_TYPES for name in dir(kind) if kind not in (fractions.Fraction, decimal.Decimal))
    .union(*map(_public, _KEEPS_NOTHING))
    .union(*_LISTED_NAMES.values())
)

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
            return Findings(ast.parse(code)).may_differ
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True


def _is_suspect(code: str) -> bool:
    """Whether it contains anything that needs the syntax tree: takes a fiftieth of the time of parsing."""
    words = _WORD.findall(code)
    return not (code.isascii() and _SUSPECT_WORDS.isdisjoint(words)) or _SUSPECT_CHARACTER.search(code) is not None


class Findings:
    """Findings in a syntax tree.

    `unknown`: a name that is not in the lists above. `order`: a set whose order may be visible. `addresses`: objects
    whose text would contain their address. `texts`: texts of objects. `state`: what a later program might find.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.unknown = self.order = self.addresses = self.texts = self.state = False
        self._consumed: set[ast.AST] = set()  # iterables and functions that are not kept
        self._unordered: set[ast.AST] = set()
        nodes = _nodes(tree)  # parents before children
        self._functions = (
            {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
            | OPERATORS.keys()
            | MODEL_OPERATORS.keys()
        )
        self._trusted = _TRUSTED - set(_bound(nodes))
        for node in nodes:
            _VISITS.get(type(node), Findings._visit_unknown)(self, node)

    @property
    def may_differ(self) -> bool:
        """Whether another run of the program could give another answer."""
        return self.unknown or self.order or (self.addresses and self.texts)

    @property
    def may_keep_state(self) -> bool:
        """Whether a later program in the same process could find that this one has been there."""
        return self.unknown or self.state

    def _visit_loop(self, node: Any) -> None:
        self._consumed.add(node.iter)

    def _visit_starred(self, node: Any) -> None:
        self._consumed.add(node.value)

    def _visit_compare(self, node: Any) -> None:
        self._unordered.update(node.comparators)

    def _visit_call(self, node: Any) -> None:
        self._consumed.add(node.func)
        name = _called_name(node)
        trusted = name in self._trusted
        if trusted and name in _CONSUMES:
            self._consumed.update(node.args)
        if trusted and name in _IGNORES_ORDER:
            self._unordered.update(node.args)
        if trusted and name in _TAKES_FUNCTION:
            self._consumed.update([*node.args[:1], *(word.value for word in node.keywords)])
        self.addresses |= name in _LAZY and node not in self._consumed
        self.order |= name in _SETS and node not in self._unordered
        self.order |= name in _VIEWS and node not in self._unordered and node not in self._consumed

    def _visit_import(self, node: Any) -> None:
        for alias in node.names:
            self.unknown |= alias.name not in _PURE_MODULES
            self.state |= alias.name not in _STATELESS_MODULES

    def _visit_import_from(self, node: Any) -> None:
        self.unknown |= node.level != 0 or node.module not in _PURE_MODULES
        self.state |= node.module not in _STATELESS_MODULES
        for alias in node.names:
            self.unknown |= alias.name not in _SAFE_ATTRIBUTES
            self.state |= alias.name not in _STATELESS_ATTRIBUTES

    def _visit_unknown(self, node: Any) -> None:  # noqa: ARG002
        self.unknown = True

    def _visit_name(self, node: Any) -> None:
        name = node.id
        self.unknown |= name in _RISKY_BUILTINS or name.startswith("__")
        self.texts |= name in _TEXTS
        self.addresses |= name in self._functions and node not in self._consumed

    def _visit_attribute(self, node: Any) -> None:
        name = node.attr
        self.unknown |= name not in _SAFE_ATTRIBUTES
        self.state |= name not in _STATELESS_ATTRIBUTES or type(node.ctx) is not ast.Load
        self.addresses |= name not in _VALUES and node not in self._consumed

    def _visit_formatted(self, node: Any) -> None:  # noqa: ARG002
        self.texts = True

    def _visit_operation(self, node: Any) -> None:
        if type(node.op) is ast.Mod:
            left = getattr(node, "left", None)  # of an AugAssign unknown
            self.texts |= not (isinstance(left, ast.Constant) and isinstance(left.value, int | float))

    def _visit_function(self, node: Any) -> None:
        self.addresses |= node not in self._consumed

    def _visit_yield(self, node: Any) -> None:  # noqa: ARG002
        self.addresses = True

    def _visit_set(self, node: Any) -> None:
        self.order |= node not in self._unordered


def _nodes(tree: ast.Module) -> list[ast.AST]:
    """The nodes that are looked at, in the order of `ast.walk`, in half of its time."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name, None)
            if type(value) is list:
                nodes += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and type(value) not in _WITHOUT_CHILDREN:
                nodes.append(value)
    return [node for node in nodes if type(node) not in _HARMLESS]


def _called_name(node: ast.Call) -> str:
    """The last part of the called name; empty if it is not a name."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _bound(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that the program itself binds."""
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.asname for alias in names if alias.asname not in (None, alias.name))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name


def _ignore(findings: Findings, node: Any) -> None:
    """For nodes that only bind names."""


_WITHOUT_CHILDREN = frozenset((ast.Load, ast.Store, ast.Del, *ast.operator.__subclasses__(), ast.Constant))
"""Most of the nodes, of which none is looked at."""

# fmt: off
_HARMLESS = _WITHOUT_CHILDREN | frozenset((
    ast.Module, ast.Expr, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Delete, ast.Return, ast.Raise, ast.Assert,
    ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.If, ast.IfExp, ast.While, ast.Try, ast.TryStar,
    ast.Match, ast.match_case, ast.MatchValue, ast.MatchSingleton, ast.MatchSequence, ast.MatchMapping, ast.MatchOr,
    ast.BoolOp, ast.UnaryOp, *ast.boolop.__subclasses__(), *ast.unaryop.__subclasses__(), *ast.cmpop.__subclasses__(),
    ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.JoinedStr, ast.Subscript, ast.Slice,
    ast.arguments, ast.keyword, ast.alias,
))
# fmt: on
"""Kinds of nodes that are harmless, whatever their children are."""

_VISITS: dict[type[ast.AST], Callable[[Findings, Any], None]] = {
    **dict.fromkeys((ast.For, ast.comprehension), Findings._visit_loop),
    **dict.fromkeys((ast.FunctionDef, ast.arg, ast.ExceptHandler, ast.MatchAs, ast.MatchStar), _ignore),
    **dict.fromkeys((ast.Lambda, ast.GeneratorExp), Findings._visit_function),
    **dict.fromkeys((ast.Yield, ast.YieldFrom), Findings._visit_yield),
    **dict.fromkeys((ast.Set, ast.SetComp), Findings._visit_set),
    ast.Starred: Findings._visit_starred,
    ast.Compare: Findings._visit_compare,
    ast.Call: Findings._visit_call,
    ast.Import: Findings._visit_import,
    ast.ImportFrom: Findings._visit_import_from,
    ast.Name: Findings._visit_name,
    ast.Attribute: Findings._visit_attribute,
    ast.FormattedValue: Findings._visit_formatted,
    **dict.fromkeys((ast.BinOp, ast.AugAssign), Findings._visit_operation),
}
"""Kinds of nodes that are looked at. Any other is unknown: classes, `async`, `with`, what a later Python brings."""
