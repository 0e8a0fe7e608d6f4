"""Code in a text: extraction from a completion, its syntax tree, and the tests that a text shows, asserts and examples.

Standard library only, since the sandbox's zygote imports it.
"""

import ast
import re
import warnings
from collections.abc import Iterator

_FENCED = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)

_THINK, _END = "<think>", "</think>"

_ARROW = re.compile(r"^(.+?\))\s*(?:==|=>|->|➞|→|=|returns?)\s*(.+?)\.?$")


def code_of(text: str) -> str:
    """The workflow in a completion.

    Thoughts are left out: the text up to the last `</think>`, or all of a text that begins with an unclosed `<think>`.
    Code between ``` fences if there are any: the first block that defines `solve`, else the first block. An unclosed
    fence ends with the text; an empty block is dropped. Blank lines around the code and trailing blanks are removed;
    one newline ends it. A blank completion gives "". `code_of(code_of(text)) == code_of(text)`. Lone surrogates, which
    cannot be encoded, become U+FFFD.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\r\n", "\n")
    if text.lstrip().startswith(_THINK) and _END not in text:
        return ""
    text = text.rpartition(_END)[2]
    blocks = [block for block in _FENCED.findall(text) if block.strip()]
    chosen = next((block for block in blocks if "def solve" in block), None)
    if chosen is None:
        chosen = blocks[0] if blocks else _FENCE.sub("", text)
    stripped = re.sub(r"\A(?:[^\S\n]*\n)+", "", chosen).rstrip()
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
                for each in args:
                    ast.literal_eval(each)
            case _:
                return
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    yield f"assert {call.encode()[:end].decode()} == {value}"  # without a comment behind the call
