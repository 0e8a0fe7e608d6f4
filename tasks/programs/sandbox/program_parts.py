"""The parts of a program under test: what is run before code, and code as a whole or as the rest of a prompt.

Standard library only.
"""

import ast
import builtins
from contextlib import suppress
from typing import Any

from tasks.programs.code_blocks import parsed, syntax_tree
from tasks.programs.definitions import defined_names


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
    found = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] if tree else []
    return [ast.Module(body=list(found), type_ignores=[])] if found else []


def end_prompt(prompt: str) -> str:
    """A prompt that ends in the head of a function, with a body for it; "" if it is blank."""
    return f"{prompt.rstrip()}\n    pass\n" if prompt.strip() else ""


def body_of(code: str) -> str:
    """The text up to its first line that is neither indented nor blank: the body of a function that a prompt begins."""
    lines = code.splitlines(keepends=True)
    ends = (place for place, line in enumerate(lines) if line.strip() and not line[0].isspace())
    return "".join(lines[: next(ends, len(lines))])
