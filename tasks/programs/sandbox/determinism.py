"""Static proof that a program gives the same answer in every run and leaves no state in its process.

The sandbox fixes what it can: hash seed, clocks, random numbers, process id (surroundings.py, seccomp.py). Memory
addresses remain. They show in the text and the hash of functions, iterators, methods and instances of classes, and so
in the order of sets of those, of None and of NaN. The proof is first-order: functions are called, or handed to a
built-in function that only calls them, but never become values; iterators are used up where they are made; sets are
only counted, compared and searched. Whatever is not on the lists below is not proved, a node that a later Python adds
to the language too. Such a program runs twice, in two processes (sandbox.py).

A program leaves no state if, besides, it can reach no object but its own data. Programs that leave none may share a
process, and so may unit tests.
"""

import ast
import builtins
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from tasks.programs.code_blocks import syntax_tree
from tasks.programs.operators.builtin import OPERATORS
from tasks.programs.operators.model_calls import MODEL_OPERATORS

# fmt: off
_TYPES = frozenset(("bool", "bytes", "complex", "dict", "float", "int", "list", "str", "tuple"))
_ERRORS = frozenset((  # a handler of these catches no MemoryError, which comes sooner or later by what ran before
    "ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "LookupError", "NameError",
    "OverflowError", "RecursionError", "StopIteration", "SyntaxError", "TypeError", "UnboundLocalError",
    "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "ValueError", "ZeroDivisionError",
))
_FUNCTIONS = _TYPES | _ERRORS | OPERATORS.keys() | MODEL_OPERATORS.keys() | frozenset((
    "Exception", "abs", "all", "any", "ascii", "bin", "chr", "divmod", "enumerate", "filter", "frozenset", "hex",
    "isinstance", "iter", "len", "map", "max", "min", "next", "oct", "ord", "pow", "print", "range", "repr",
    "reversed", "round", "set", "sorted", "sum", "zip",
))
_REFUSED = (frozenset(dir(builtins)) - _FUNCTIONS) | {"run", "test"}  # the operators that run any code

_ITERTOOLS = frozenset((
    "accumulate", "chain", "combinations", "combinations_with_replacement", "compress", "count", "cycle", "dropwhile",
    "filterfalse", "islice", "pairwise", "permutations", "product", "starmap", "takewhile", "zip_longest",
))
_CONSTANTS = frozenset((
    "pi", "e", "tau", "inf", "nan", "I", "IGNORECASE", "M", "MULTILINE", "S", "DOTALL", "X", "VERBOSE", "A", "ASCII",
    "ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "hexdigits", "punctuation", "whitespace",
))
_DECORATORS = frozenset(("cache", "lru_cache"))
_MODULES: dict[str, frozenset[str]] = {
    "bisect": frozenset(("bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right")),
    "collections": frozenset(("Counter", "OrderedDict", "defaultdict", "deque")),
    "fractions": frozenset(("Fraction",)),
    "functools": frozenset(("cmp_to_key", "reduce", *_DECORATORS)),
    "heapq": frozenset((
        "heapify", "heappop", "heappush", "heappushpop", "heapreplace", "merge", "nlargest", "nsmallest",
    )),
    "itertools": _ITERTOOLS,
    "math": _CONSTANTS | frozenset((
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "comb", "copysign", "cos", "cosh",
        "degrees", "dist", "erf", "exp", "expm1", "fabs", "factorial", "floor", "fmod", "fsum", "gamma", "gcd", "hypot",
        "isclose", "isfinite", "isinf", "isnan", "isqrt", "lcm", "log", "log10", "log1p", "log2", "modf", "perm",
        "pow", "prod", "radians", "remainder", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    )),
    "re": _CONSTANTS | frozenset((
        "compile", "escape", "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn",
    )),
    "string": _CONSTANTS,
    "typing": frozenset((
        "Any", "Callable", "Deque", "DefaultDict", "Dict", "FrozenSet", "Generator", "Iterable", "Iterator",
        "List", "Literal", "Mapping", "Optional", "Sequence", "Set", "Tuple", "Union",
    )),
}
_METHODS = frozenset((  # of data, and giving data
    "add", "append", "appendleft", "as_integer_ratio", "bit_count", "bit_length", "capitalize", "casefold", "center",
    "clear", "conjugate", "copy", "decode", "difference", "difference_update", "discard", "elements", "encode", "end",
    "endswith", "expandtabs", "extend", "extendleft", "find", "from_iterable", "fromkeys", "get", "group", "groupdict",
    "groups", "hex", "index", "insert", "intersection", "intersection_update", "is_integer", "isalnum", "isalpha",
    "isascii", "isdecimal", "isdigit", "isdisjoint", "isidentifier", "islower", "isnumeric", "isprintable", "isspace",
    "issubset", "issuperset", "istitle", "isupper", "items", "join", "keys", "limit_denominator", "ljust", "lower",
    "lstrip", "maketrans", "most_common", "move_to_end", "partition", "pop", "popitem", "popleft", "remove",
    "removeprefix", "removesuffix", "replace", "reverse", "rfind", "rindex", "rjust", "rotate", "rpartition", "rsplit",
    "rstrip", "setdefault", "sort", "span", "splitlines", "start", "startswith", "strip", "subtract", "swapcase",
    "symmetric_difference", "title", "to_bytes", "total", "translate", "union", "update", "upper", "values", "zfill",
))
_MEMBERS = (_METHODS | frozenset[str]().union(*_MODULES.values())) - _CONSTANTS
_FIELDS = _CONSTANTS | {"real", "imag", "numerator", "denominator"}

_LAZY = _ITERTOOLS | {
    "elements", "enumerate", "filter", "finditer", "from_iterable", "iter", "map", "merge", "reversed", "zip",
} - {"count"}  # a method of lists too; the text of the other one shows no address
_UNORDERED = frozenset(("set", "frozenset", "keys", "items"))  # `&` and the like make sets of a dict's views
_USES_UP = _LAZY | frozenset((  # these keep the elements of their first argument, the lazy ones of all of them
    "Counter", "OrderedDict", "all", "any", "deque", "dict", "extend", "extendleft", "frozenset", "fsum", "join",
    "list", "majority", "max", "min", "next", "prod", "reduce", "set", "sorted", "sum", "tuple", "update",
))
_OF_SEVERAL = frozenset(("max", "min"))  # of several arguments they give one
_APPLIES = frozenset(("dropwhile", "filter", "filterfalse", "map", "reduce", "starmap", "takewhile"))  # the first
_TAKES_KEY = frozenset(("max", "merge", "min", "nlargest", "nsmallest", "sort", "sorted"))
# fmt: on

_VALUE, _USED_UP, _COUNTED, _APPLIED, _OBJECT, _ANNOTATION = range(6)
"""Uses of an expression: as a value; for its elements; for their number, or in a comparison; to be called by a built-in
function; for one of its attributes; as an annotation, which a program cannot reach."""


@lru_cache(maxsize=4096)
def may_differ(code: str) -> bool:
    """Whether a program might give another answer in another run; True unless the opposite is proved."""
    try:
        return Findings(syntax_tree(code)).may_differ
    except SyntaxError:
        return False
    except (ValueError, RecursionError, MemoryError):
        return True


class Findings:
    """Findings in a syntax tree.

    `may_keep_state`: a later program in the same process might find that this one has been there. `may_differ`: another
    run might give another answer.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.may_keep_state = False
        self._shows_addresses = False
        self._bound: set[str] = set()
        self._functions: set[str] = set(_FUNCTIONS)  # and modules
        self._values: set[str] = set()  # names that are used as values
        self._trusted: set[str] = set()  # built-in functions that must be what they are
        self._waiting: list[tuple[ast.AST, int]] = [(tree, _VALUE)]
        while self._waiting:  # no recursion, whose depth a program would choose
            node, use = self._waiting.pop()
            visit = _VISITS.get(type(node))
            if visit is None:
                self.may_keep_state = True
            else:
                visit(self, node, use)
        # Only here are all names known: a program may bind one below the place where it is called.
        self.may_keep_state |= not self._trusted.isdisjoint(self._bound)
        self._shows_addresses |= not self._values.isdisjoint(self._functions)

    @property
    def may_differ(self) -> bool:
        """Whether another run of the program might give another answer."""
        return self.may_keep_state or self._shows_addresses

    def _add(self, nodes: Iterable[ast.AST | None], use: int = _VALUE) -> None:
        self._waiting += [(node, use) for node in nodes if node is not None]

    def _visit_children(self, node: Any, use: int) -> None:  # noqa: ARG002
        self._add(child for child in ast.iter_child_nodes(node) if type(child) not in _LEAVES)

    def _visit_function(self, node: Any, use: int) -> None:  # noqa: ARG002
        self._bound.add(node.name)
        self._functions.add(node.name)
        self.may_keep_state |= bool(getattr(node, "type_params", ()))
        for decorator in node.decorator_list:
            call = isinstance(decorator, ast.Call)
            name = self._visit_called(decorator.func if call else decorator)
            self.may_keep_state |= name not in _DECORATORS
            self._trusted.add(name)
            self._add([*decorator.args, *decorator.keywords] if call else [])
        self._add([node.returns], _ANNOTATION)
        self._add([node.args, *node.body])

    def _visit_lambda(self, node: Any, use: int) -> None:
        self._shows_addresses |= use != _APPLIED
        self._add([node.args, node.body])

    def _visit_parameter(self, node: Any, use: int) -> None:  # noqa: ARG002
        self._bound.add(node.arg)
        self._add([node.annotation], _ANNOTATION)

    def _visit_annotated(self, node: Any, use: int) -> None:  # noqa: ARG002
        self._add([node.annotation], _ANNOTATION)
        self._add([node.target, node.value])

    def _visit_loop(self, node: Any, use: int) -> None:  # noqa: ARG002
        self._add([node.iter], _USED_UP)
        self._add([node.target, *getattr(node, "body", ()), *getattr(node, "orelse", ()), *getattr(node, "ifs", ())])
        self.may_keep_state |= bool(getattr(node, "is_async", False))

    def _visit_generator(self, node: Any, use: int) -> None:
        self._shows_addresses |= use != _USED_UP
        self._visit_children(node, use)

    def _visit_set(self, node: Any, use: int) -> None:
        self._shows_addresses |= use != _COUNTED
        self._visit_children(node, use)

    def _visit_yield(self, node: Any, use: int) -> None:
        self._shows_addresses = True
        self._visit_children(node, use)

    def _visit_starred(self, node: Any, use: int) -> None:  # noqa: ARG002
        self._add([node.value], _USED_UP if type(node.ctx) is ast.Load else _VALUE)

    def _visit_choice(self, node: Any, use: int) -> None:
        self._add([node.test])
        self._add([node.body, node.orelse], use)

    def _visit_collection(self, node: Any, use: int) -> None:
        self._add(node.elts, use if use in (_APPLIED, _ANNOTATION) else _VALUE)

    def _visit_subscript(self, node: Any, use: int) -> None:
        self._add([node.value, node.slice], use if use == _ANNOTATION else _VALUE)

    def _visit_comparison(self, node: Any, use: int) -> None:  # noqa: ARG002
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.Is | ast.IsNot):  # of two equal objects it is chance, but for None and the like
                self.may_keep_state |= not (isinstance(right, ast.Constant) and type(right.value) in _SINGLE)
        self._add([node.left, *node.comparators], _COUNTED)

    def _visit_raise(self, node: Any, use: int) -> None:  # noqa: ARG002
        self._add([node.exc], _APPLIED)
        self._add([node.cause])

    def _visit_try(self, node: Any, use: int) -> None:
        ends = [part for statement in node.finalbody for part in ast.walk(statement)]
        self.may_keep_state |= any(isinstance(part, ast.Return | ast.Break | ast.Continue) for part in ends)
        self._visit_children(node, use)  # above: one of these would end any exception

    def _visit_handler(self, node: Any, use: int) -> None:  # noqa: ARG002
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        self.may_keep_state |= not all(isinstance(kind, ast.Name) and kind.id in _ERRORS for kind in kinds)
        self._trusted.update(kind.id for kind in kinds if isinstance(kind, ast.Name))
        self._bound.update([node.name] if node.name else [])
        self._add(node.body)

    def _visit_import(self, node: Any, use: int) -> None:  # noqa: ARG002
        for alias in node.names:
            self.may_keep_state |= alias.name not in _MODULES
            self._functions.add(alias.asname or alias.name)
            self._bound.add(alias.asname or alias.name)

    def _visit_import_from(self, node: Any, use: int) -> None:  # noqa: ARG002
        for alias in node.names:
            self.may_keep_state |= node.level != 0 or alias.name not in _MODULES.get(node.module, ())
            self.may_keep_state |= alias.asname not in (None, alias.name)  # the lists are of names
            self._functions.update({alias.name} - _CONSTANTS)

    def _visit_name(self, node: Any, use: int) -> None:
        name = node.id
        self.may_keep_state |= name in _REFUSED or name.startswith("__")
        if type(node.ctx) is not ast.Load:
            self._bound.add(name)
        elif use in (_VALUE, _USED_UP, _COUNTED):
            self._values.add(name)
        elif use == _APPLIED:
            self._shows_addresses |= name in _LAZY or name in _UNORDERED

    def _visit_attribute(self, node: Any, use: int) -> None:
        name = node.attr
        self.may_keep_state |= type(node.ctx) is not ast.Load
        if use == _ANNOTATION:
            self.may_keep_state |= name not in _MODULES["typing"]
        elif use == _APPLIED:
            self.may_keep_state |= name not in _MEMBERS
            self._shows_addresses |= name in _LAZY or name in _UNORDERED
        else:
            self.may_keep_state |= name not in _FIELDS and name not in _MEMBERS
            self._shows_addresses |= name not in _FIELDS
        self._add([node.value], _VALUE if name in _FIELDS - _CONSTANTS else _OBJECT)

    def _visit_call(self, node: Any, use: int) -> None:
        name = self._visit_called(node.func)
        self._shows_addresses |= name in _LAZY and use != _USED_UP
        self._shows_addresses |= name == "cmp_to_key" and use != _APPLIED
        self._shows_addresses |= name in _UNORDERED and use != _COUNTED and not (use == _USED_UP and name in _METHODS)
        for place, argument in enumerate(node.args):
            self._add([argument], self._use_of(name, place, node.args))
        for keyword in node.keywords:
            self._add([keyword.value], self._trust(name, _APPLIED) if _is_key(name, keyword) else _VALUE)

    def _use_of(self, name: str, place: int, arguments: list[ast.expr]) -> int:
        """The use that a function makes of its argument at a place."""
        if name in _APPLIES:
            if place == 0:
                return self._trust(name, _APPLIED)
            place -= name == "reduce"  # its second one is used up, the third is not
        if name in _LAZY or (name in _USES_UP and place == 0 and (name not in _OF_SEVERAL or len(arguments) == 1)):
            return self._trust(name, _USED_UP)
        if name == "len":
            return self._trust(name, _COUNTED)
        if name == "cmp_to_key" or (name == "isinstance" and place == 1):
            return self._trust(name, _APPLIED)
        kind = _last_name(arguments[place])
        if name == "defaultdict" and place == 0 and kind in _TYPES:
            return self._trust(name, self._trust(kind, _APPLIED))
        return _VALUE

    def _visit_called(self, function: ast.expr) -> str:
        """Its last name; "" if it has none."""
        name = _last_name(function)
        if isinstance(function, ast.Attribute):
            self.may_keep_state |= name not in _MEMBERS
            self._add([function.value], _OBJECT)
        elif isinstance(function, ast.Name):
            self.may_keep_state |= name in _REFUSED or name.startswith("__")
        else:
            self._add([function], _APPLIED if isinstance(function, ast.Lambda) else _VALUE)
        return name

    def _trust(self, name: str, use: int) -> int:
        """The use that a built-in function makes of an argument; a program must not bind its name."""
        self._trusted.add(name)
        return use


def _is_key(name: str, keyword: ast.keyword) -> bool:
    return keyword.arg == "key" and name in _TAKES_KEY


def _last_name(node: ast.expr) -> str:
    """The last part of a name with dots; "" for other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


_SINGLE = (type(None), bool, type(...))

_LEAVES = frozenset((
    ast.Load, ast.Store, ast.Del, *ast.operator.__subclasses__(), *ast.unaryop.__subclasses__(), ast.And, ast.Or,
    ast.Constant,
))  # fmt: skip

# fmt: off
_VISITS: dict[type[ast.AST], Callable[[Findings, Any, int], None]] = {
    **dict.fromkeys((
        ast.Module, ast.Return, ast.Delete, ast.Assign, ast.AugAssign, ast.While, ast.If, ast.Assert, ast.Global,
        ast.Nonlocal, ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp,
        ast.Dict, ast.ListComp, ast.DictComp, ast.FormattedValue, ast.JoinedStr, ast.Constant, ast.Slice,
        ast.arguments, ast.keyword,
    ), Findings._visit_children),
    **dict.fromkeys((ast.For, ast.comprehension), Findings._visit_loop),
    **dict.fromkeys((ast.Set, ast.SetComp), Findings._visit_set),
    **dict.fromkeys((ast.Yield, ast.YieldFrom), Findings._visit_yield),
    **dict.fromkeys((ast.List, ast.Tuple), Findings._visit_collection),
    ast.AnnAssign: Findings._visit_annotated,
    ast.Attribute: Findings._visit_attribute,
    ast.Call: Findings._visit_call,
    ast.Compare: Findings._visit_comparison,
    ast.ExceptHandler: Findings._visit_handler,
    ast.FunctionDef: Findings._visit_function,
    ast.GeneratorExp: Findings._visit_generator,
    ast.IfExp: Findings._visit_choice,
    ast.Import: Findings._visit_import,
    ast.ImportFrom: Findings._visit_import_from,
    ast.Lambda: Findings._visit_lambda,
    ast.Name: Findings._visit_name,
    ast.Raise: Findings._visit_raise,
    ast.Starred: Findings._visit_starred,
    ast.Subscript: Findings._visit_subscript,
    ast.Try: Findings._visit_try,
    ast.arg: Findings._visit_parameter,
}
"""The nodes that may occur; any other is not proved."""
# fmt: on
