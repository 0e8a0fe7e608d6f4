"""Run one program on one question, inside the sandbox; and the parts of a program under test. Standard library only."""

import ast
import builtins
import math
import re
import types
from collections.abc import Callable
from contextlib import suppress
from json.encoder import encode_basestring_ascii
from typing import Any

from tasks.programs.code_blocks import called_name, defined_names, parsed, shown_tests, syntax_tree
from tasks.programs.operators.builtin import OPERATORS
from tasks.programs.operators.model_calls import MODEL_OPERATORS

MAX_ERROR = 200
"""Longest error text, in characters."""

MAX_VALUE_TEXT = 4000
"""Longest text that a program may return: as JSON it stays below 64 KiB, the capacity of a pipe."""

MAX_VALUE = 10**100
"""Integers that a program may return lie strictly between -MAX_VALUE and MAX_VALUE."""

Ending = tuple[str, int | float | str | None, str | None]
"""(status, value, error) as in records.Result; status is ok, error or memory. Also ("ask", operator, prompt): the
program needs a model's reply to continue."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_OBJECT = re.compile(r"<[^<>]* at 0x[0-9a-fA-F]{6,}")
"""An address in a text, as Python writes objects."""

_PATH = re.compile(r"(?<![\w.<])/[^\s'\"()<>:]+/[^\s'\"()<>:]*")


def compile_program(code: str) -> types.CodeType:
    """The bytecode of a program. Raises what `compile` raises, except for the parser's own MemoryError."""
    try:
        compiled: types.CodeType = compile(code, "<workflow>", "exec", dont_inherit=True)
    except MemoryError:  # raised by the parser for source that is nested too deep
        raise SyntaxError("too deeply nested") from None
    return compiled


def run_program(compiled: types.CodeType, question: str) -> Ending:
    """Call `solve(question)`. Never raises, whatever the program does in Python."""
    return guarded(lambda: value_ending(_solver(compiled)(question)))


def guarded(step: Callable[[], Ending]) -> Ending:
    """The ending that `step` returns, or the one for its exception."""
    try:
        return step()
    except MemoryError:
        return "memory", None, "MemoryError"
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are the program's too
        return error_ending(error)


def value_ending(value: object) -> Ending:
    """ok for an int, a finite float or a str (no subclass) within the bounds; error for anything else."""
    if type(value) is int:
        return ("ok", value, None) if -MAX_VALUE < value < MAX_VALUE else _returned("a number of over 100 digits")
    if type(value) is float:
        return ("ok", value, None) if math.isfinite(value) else _returned(str(value))
    if type(value) is str:
        if len(value) > MAX_VALUE_TEXT:
            return _returned(f"a text of over {MAX_VALUE_TEXT} characters")
        if _OBJECT.search(value):
            return _returned("a text with a memory address")
        return ("ok", value, None) if is_unicode(value) else _returned("a text that is not Unicode")
    return _returned(clean_error(type(value).__name__))


def error_ending(error: BaseException) -> Ending:
    """`ExceptionClass: message`, equal on every machine and in every run."""
    try:
        message = str(error)[: 10 * MAX_ERROR]
    except BaseException:  # noqa: BLE001 - a program may raise an exception that has no text
        message = ""
    name = type(error).__name__
    return "error", None, clean_error(f"{name}: {message}" if message else name)


def ending_json(ending: Ending) -> bytes:
    """An ending as `json.dumps` writes it, touching a fraction of the memory."""
    return "[{}, {}, {}]".format(*map(_literal, ending)).encode()


def clean_error(text: str) -> str:
    """An error text on one line, without addresses, absolute paths and broken Unicode, at most MAX_ERROR characters."""
    unicode = text[: 10 * MAX_ERROR].encode("utf-8", "replace").decode()
    return " ".join(_PATH.sub("<path>", _ADDRESS.sub("", unicode)).split())[:MAX_ERROR]


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8: lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _literal(value: int | float | str | None) -> str:
    if value is None:
        return "null"
    return encode_basestring_ascii(value) if isinstance(value, str) else repr(value)


def run(code: str, problem: str) -> Any:
    """What a program gives for a problem: the `solve` in its code is called, in the sandbox that this runs in.

    Raises what the program raises, SyntaxError where it is none, NameError where it defines no `solve`.
    """
    return _solver(compile_program(code))(problem)


def test(code: str, shown: str) -> float:
    """The share of the tests in a text that code passes, from 0 to 1: test(write_code(problem), problem).

    They are the tests that `shown_tests` finds; the hidden ones of a problem are not here. Raises ValueError
    for a text without tests.
    """
    tests = shown_tests(shown)
    if not tests:
        raise ValueError("test() needs a text that shows tests: assert f(2) == 4")
    try:
        namespace: dict[str, Any] = {"__name__": "candidate"}
        define(namespace, program_parts(shown, code, called_name(tests[0])))
    except Exception:  # noqa: BLE001 (code may raise anything)
        return 0.0
    return sum(_passes(test, namespace) for test in tests) / len(tests)


ALL_OPERATORS: dict[str, Callable[..., Any]] = {**OPERATORS, "run": run, "test": test, **MODEL_OPERATORS}
"""Name → function: all operators, with those that call a model, in the order of listing."""


def _passes(statement: str, namespace: dict[str, Any]) -> bool:
    try:
        exec(compile_program(statement), namespace)
    except Exception:  # noqa: BLE001
        return False
    return True


def _solver(compiled: types.CodeType) -> Callable[[str], object]:
    namespace: dict[str, Any] = {"__name__": "workflow", "__builtins__": builtins, **ALL_OPERATORS}
    exec(compiled, namespace)
    solve = namespace.get("solve")
    if not callable(solve):
        raise NameError("the program defines no function solve(problem)")
    solver: Callable[[str], object] = solve
    return solver


def _returned(what: str) -> Ending:
    return "error", None, f"returned {what}"


def program_parts(prompt: str, code: str, name: str, setup: str = "") -> list[ast.Module]:
    """What is run, in this order: the imports of the setup, the prompt's imports and functions, and the code.

    Code that does not define `name` is the rest of the prompt, up to its first line that is neither indented nor
    blank. Of the setup, which belongs to the tests, only imports are here. Raises what parsing the code raises.
    """
    imports = imports_of(setup)
    whole = parsed(code)
    if whole and name in defined_names(whole):
        head = parsed(end_prompt(prompt))
        return [*imports, *([head] if head else []), whole]
    rest = parsed(prompt + code)
    return [*imports, rest or syntax_tree(prompt + body_of(code))]


def define(namespace: dict[str, Any], parts: list[ast.Module]) -> None:
    """Run the parts in one namespace, with the built-in functions. Raises what the last one, the code, raises."""
    namespace["__builtins__"] = builtins
    for part in parts[:-1]:
        with suppress(Exception):  # a prompt need not run where the code stands alone
            exec(compile(part, "<prompt>", "exec", dont_inherit=True), namespace)
    exec(compile(parts[-1], "<candidate>", "exec", dont_inherit=True), namespace)


def imports_of(text: str) -> list[ast.Module]:
    """The import statements at the top level of a text, as a module; [] if there are none."""
    tree = parsed(text) if text else None
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] if tree else []
    return [ast.Module(body=list(imports), type_ignores=[])] if imports else []


def end_prompt(prompt: str) -> str:
    """A prompt that ends in the head of a function, with a body for it; "" if it is blank."""
    return f"{prompt.rstrip()}\n    pass\n" if prompt.strip() else ""


def body_of(code: str) -> str:
    """The text up to its first line that is neither indented nor blank: the body of a function that a prompt begins."""
    lines = code.splitlines(keepends=True)
    ends = (place for place, line in enumerate(lines) if line.strip() and not line[0].isspace())
    return "".join(lines[: next(ends, len(lines))])
