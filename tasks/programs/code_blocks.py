"""Code in a text: extraction from a completion, its syntax tree, and the tests that a text shows, asserts and examples;
the names that code defines, and those that it reads and nothing in it binds.

Standard library only, since the sandbox's zygote imports it.
"""

import ast
import builtins
import re
import warnings
from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import NamedTuple

_THINK, _END = "<think>", "</think>"

# Their one group is the language. Possessive, so that a text of backticks alone is read in linear time.
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})([^\n]*)$|(?<!`)`{3,}+[ \t]*+$", re.MULTILINE)
_MARK = re.compile(r"`++(py\w*(?=\s)|[\w+-]*(?=\n))?|~{3,}+[^\n]*|</?[A-Za-z][^<>\n]*>|^\[/?[A-Z]+\]$", re.MULTILINE)
_PARAGRAPH = re.compile(rf"{_MARK.pattern}|\n[ \t]*\n(?=\S)", re.MULTILINE)

_QUOTES = ('"""', "'''")
_ARROW = re.compile(r"^(.+?\))\s*(?:==|=>|->|➞|→|=|returns?)\s*(.+?)\.?$")
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")


class _Piece(NamedTuple):
    """A part of a text. `is_foreign`: its fence names another language; `is_fenced`: behind an odd number of cuts."""

    start: int
    end: int
    text: str
    is_foreign: bool = False
    is_fenced: bool = False


class _Python(NamedTuple):
    start: int
    code: str
    tree: ast.Module


def code_of(text: str, name: str = "solve") -> str:
    """The code in a completion that was asked for a function `name`: docs/code.md, "Which part is the code".

    Thoughts are left out: the text up to the last `</think>`, and all of the rest if it begins with another `<think>`.
    Blank lines around the code and trailing blanks are removed; one newline ends it. A blank completion gives "".
    The code of the code is itself. Lone surrogates, which cannot be encoded, become U+FFFD.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n")
    text = text.rpartition(_END)[2]
    if text.lstrip().startswith(_THINK):
        return ""
    whole, blocks = [_Piece(0, len(text), text)], _cut(text, _FENCE)
    if code := _defining_code(whole, name):
        return code
    for pieces in ([*blocks, *_rejoined(text, blocks)], _cut(text, _MARK), _cut(text, _PARAGRAPH)):
        if pieces != whole and (code := _defining_code(pieces, name)):
            return code
    code = _trim(min(blocks, key=lambda piece: _unlikeness(piece, name)).text) if blocks else ""
    return code if code == _trim(text) else code_of(code, name)  # so that the code of the code is itself


def _cut(text: str, mark: re.Pattern[str]) -> list[_Piece]:
    """The parts of a text between the marks, in order, without those that are blank."""
    marks = list(mark.finditer(text))
    starts, ends = [0, *(cut.end() for cut in marks)], [*(cut.start() for cut in marks), len(text)]
    languages = ["", *((cut[1] or "").strip(" \t{.").lower() for cut in marks)]
    return [
        _Piece(start, end, text[start:end], bool(language) and not language.startswith("py"), place % 2 == 1)
        for place, (start, end, language) in enumerate(zip(starts, ends, languages, strict=True))
        if not text[start:end].isspace() and start < end
    ]


def _rejoined(text: str, pieces: Sequence[_Piece]) -> Iterator[_Piece]:
    """The pieces that belong together because a text in triple quotes, a docstring, goes on behind a fence."""
    first: _Piece | None = None
    is_open = [False, False]
    for piece in pieces:
        is_open = [was != bool(piece.text.count(quote) % 2) for was, quote in zip(is_open, _QUOTES, strict=True)]
        if first and not any(is_open):
            yield first._replace(end=piece.end, text=text[first.start : piece.end])
            first = None
        elif any(is_open):
            first = first or piece


def _defining_code(pieces: Sequence[_Piece], name: str) -> str:
    """The last piece that is Python and defines the name, with those that define what it lacks; "" without one."""
    for piece in sorted(pieces, key=lambda piece: (piece.is_foreign, -piece.end, piece.start)):
        python = _python(piece) if name in piece.text else None
        if python and name in defined_names(python.tree):
            apart = [other for other in pieces if other.end <= piece.start or piece.end <= other.start]
            return _completed(python, [other for other in apart if not other.is_foreign])
    return ""


def _completed(chosen: _Python, others: Sequence[_Piece]) -> str:
    """A piece of Python together with the others that define what it lacks, in the order of the text."""
    taken = [chosen]
    if others and lacking_names(chosen.tree):
        all_python = [*filter(None, map(_python, others)), chosen]
        providers = {name: python for python in all_python for name in provided_names(python.tree)}
        places = {chosen.start}
        for python in taken:  # which grows
            for name in sorted(lacking_names(python.tree)):
                provider = providers.get(name) or providers.get("*")
                if provider and provider.start not in places:
                    places.add(provider.start)
                    taken.append(provider)
    return "\n".join(python.code for python in sorted(taken, key=lambda python: python.start))


def _python(piece: _Piece) -> _Python | None:
    """A piece as Python, if it is; a fence in a list is indented, and so is the code in it."""
    code = _trim(piece.text)
    for version in (code, dedent(code)) if code[:1].isspace() else (code,):
        if tree := parsed(version):
            return _Python(piece.start, version, tree)
    return None


def _unlikeness(piece: _Piece, name: str) -> tuple[bool, ...]:
    """Orders pieces of which none defines the name: the rest of a function that the prompt begins, broken code."""
    code = _trim(piece.text)
    tree = parsed(code)
    is_code = code[:1].isspace() or (tree is not None and not all(isinstance(node, ast.Expr) for node in tree.body))
    is_named = re.search(rf"^[ \t]*(?:async )?def {re.escape(name)}\b", code, re.MULTILINE) is not None
    return not is_named, not is_code, piece.is_foreign, not piece.is_fenced


def _trim(text: str) -> str:
    stripped = _BLANK_LINES.sub("", text).rstrip()
    return f"{stripped}\n" if stripped else ""


def syntax_tree(code: str) -> ast.Module:
    """What `ast.parse` gives and raises, without its warnings of what a model writes (`2n`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return ast.parse(code)


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of a text; None if it is not Python or nested too deep."""
    try:
        return syntax_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def shown_tests(text: str) -> list[str]:
    """The tests in a text, each as an assert statement: those written so, `>>> f(2)` with the value below it,
    and `f(2) == 3` or `f(2) -> 3` on a line of its own. Arguments and values must be literals.
    """
    return list(dict.fromkeys(_tests(text.splitlines())))


def called_name(test: str) -> str:
    """The function that a shown test calls: the first that is not built in; "" without one."""
    return next((name for name in re.findall(r"\b([^\W\d]\w*)\(", test) if not hasattr(builtins, name)), "")


def _tests(lines: list[str]) -> Iterator[str]:
    for place, whole in enumerate(lines):
        line = whole.strip()
        if line.startswith("assert ") and parsed(line):
            yield line
        elif line.startswith(">>> "):
            following = lines[place + 1].strip() if place + 1 < len(lines) else ""
            yield from _equation(line[4:], following)
        elif arrow := _ARROW.match(line):
            yield from _equation(arrow[1], arrow[2])


def _equation(call: str, value: str) -> Iterator[str]:
    try:
        ast.literal_eval(value)
        match ast.parse(call, mode="eval").body:
            case ast.Call(func=ast.Name(), args=args, keywords=[], end_col_offset=int(end)):
                for argument in args:
                    ast.literal_eval(argument)
            case _:
                return
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    yield f"assert {call.encode()[:end].decode()} == {value}"  # without a comment behind the call


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
    for part in (part for target in targets for part in ast.walk(target)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def _bound_by(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]
