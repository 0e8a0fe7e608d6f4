"""The program under test: a child that defines its functions and answers calls. Standard library only.

It receives the names and the arguments of calls, one by one, and sends results as plain data. It never has the tests:
they are in another child (tester.py), which alone compares and reports.
"""

import ast
import builtins
import json
from typing import Any

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox.plain_data import decode, encode

Call = tuple[str, list[Any], dict[str, Any]]


def serve_calls(payload: bytes, calls: int, replies: int) -> None:
    """Define the functions of a program, then answer each call from the pipe `calls` until it closes."""
    kept: list[Any] = []

    def keep(value: Any) -> int:
        kept.append(value)
        return len(kept) - 1

    failure: BaseException | None = None
    namespace: dict[str, Any] = {"__name__": "candidate", "__builtins__": builtins}
    try:
        define(namespace, *json.loads(payload))
    except BaseException as error:  # noqa: BLE001 (a program may raise anything, SystemExit too)
        failure = error
    while True:
        _, request = protocol.read_frame(calls)
        try:
            if failure is not None:
                raise failure
            name, args, kwargs = decode(json.loads(request), kept.__getitem__)
            reply = json.dumps(["ok", encode(namespace[name](*args, **kwargs), keep)])
        except BaseException as error:  # noqa: BLE001
            reply = json.dumps(["error", type(error).__name__])
        protocol.write_frame(replies, protocol.REPLY, reply.encode())


def define(namespace: dict[str, Any], prompt: str, code: str, entry_point: str) -> None:
    """Run the code if it defines `entry_point`, after the prompt's imports and functions; else as the prompt's rest."""
    if defines(code, entry_point):
        define_prompt(namespace, prompt)
        exec(compile(code, "<candidate>", "exec", dont_inherit=True), namespace)
        return
    for text in (code, body_of(code)):
        try:
            compiled = compile(prompt + text, "<candidate>", "exec", dont_inherit=True)
        except SyntaxError:
            continue
        exec(compiled, namespace)
        return
    raise SyntaxError


def define_prompt(namespace: dict[str, Any], prompt: str) -> None:
    """Run the imports and functions of a prompt that ends in the head of a function; nothing if it does not parse."""
    try:
        compiled = compile(f"{prompt.rstrip()}\n    pass\n", "<prompt>", "exec", dont_inherit=True)
    except SyntaxError:
        return
    exec(compiled, namespace)


def defines(code: str, name: str) -> bool:
    """Whether code parses and defines a name at its top level."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(getattr(node, "name", None) == name or name in _targets(node) for node in tree.body)


def _targets(node: ast.stmt) -> list[str]:
    return [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]


def body_of(code: str) -> str:
    """The text up to its first line that is neither indented nor blank: the body of a function that a prompt begins."""
    lines = code.splitlines(keepends=True)
    ends = (place for place, line in enumerate(lines) if line.strip() and not line[0].isspace())
    return "".join(lines[: next(ends, len(lines))])
