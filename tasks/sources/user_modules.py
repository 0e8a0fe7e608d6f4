"""User modules: their files, the names they define, and their digest.

Nothing is imported: everything is read from the source text. A module is searched for in the project's folder first,
then among the installed packages. The sources of a module of the project, or of Graft's packages, are its file and all
modules of these that it imports, directly or not; those of another installed module are its own file alone.
"""

import ast
import difflib
import hashlib
from collections.abc import Iterator, Sequence
from importlib import invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from tasks.artifacts import digest_path
from tasks.errors import GraftError
from tasks.sources.process_sources import PACKAGES, code_folder


def digest_modules(root: Path, modules: Sequence[str]) -> str:
    """sha256 of the names and contents of all their sources, hexadecimal.

    Raises GraftError if a module does not exist or its source is not Python.
    """
    digest = hashlib.sha256()
    for name, file in sources_of(root, modules):
        digest.update(f"{name}\0{digest_path(file)}\n".encode())
    return digest.hexdigest()


def check_function_exists(root: Path, name: str, key: str) -> None:
    """Raise GraftError if `module:function` names no module or none of its top-level names; `key` is the param."""
    invalidate_caches()  # the file may be new
    module, _, function = name.partition(":")
    file = _file_of(root, module)
    if file is None:
        raise GraftError(
            f"{key}: no module {module!r} (of {name}) in {root} or among what is installed; put {module}.py there, "
            "or correct the name"
        )
    if file.suffix != ".py":
        return  # compiled: known only after an import
    names = set(_defined(parse_module(file).body))
    if function not in names and not names & {"*", "__getattr__"}:
        close = difflib.get_close_matches(function, sorted(names), n=1)
        hint = f"did you mean {close[0]!r}?" if close else "define it there, or correct the name"
        raise GraftError(f"{key}: {file} defines no {function!r} (of {name}); {hint}")


def check_arguments(root: Path, name: str, key: str, arguments: str) -> None:
    """Raise GraftError if `module:function` is defined at the top level of its module, but not with these arguments.

    `arguments`: names of what it is called with, separated by commas. What the source text does not show, such as a
    name that is imported, is accepted.
    """
    module, _, function = name.partition(":")
    file = _file_of(root, module)
    if file is None or file.suffix != ".py":
        return
    shown = [node for node in parse_module(file).body if function in _defined([node])]
    called, count = f"is called as {function}({arguments})", arguments.count(",") + 1
    match shown[-1] if shown else None:
        case ast.FunctionDef(decorator_list=[], args=own) as node if not _takes(own, count):
            fault = f"{function}({ast.unparse(own)}) {called}; give it these arguments"
        case ast.AsyncFunctionDef() as node:
            fault = f"{function} is async, but {called}; write def alone"
        case ast.Assign(value=ast.Constant() | ast.List() | ast.Dict() | ast.Tuple()) as node:
            fault = f"{function} is no function, but {called}; define it"
        case _:
            return
    raise GraftError(f"{key}: {file}:{node.lineno}: {fault}")


def _takes(signature: ast.arguments, count: int) -> bool:
    """Whether a function can be called with that many positional arguments alone."""
    positional = len(signature.posonlyargs) + len(signature.args)
    required_keywords = any(default is None for default in signature.kw_defaults)
    fits = positional - len(signature.defaults) <= count and (signature.vararg is not None or count <= positional)
    return fits and not required_keywords


def sources_of(root: Path, modules: Sequence[str]) -> list[tuple[str, Path]]:
    """(module, file) of the modules and of the project's modules that they import, sorted."""
    invalidate_caches()  # a file may be new
    files: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        file = _file_of(root, name) if name in modules else _in_project(root, name)
        if file is None and name in modules:
            raise GraftError(f"params.yaml: no module {name!r} in {root} or among what is installed; correct the name")
        if file is None:
            continue
        files[name] = file
        if file.suffix == ".py" and _in_project(root, name):
            package = name if file.stem == "__init__" else name.rpartition(".")[0]
            imported = imported_names(parse_module(file), package)
            waiting += [head for dependency in [name, *imported] for head in _heads(dependency)]
    return sorted(files.items())


def imported_names(tree: ast.AST, package: str) -> Iterator[str]:
    """Absolute names imported by a module of `package`, in functions too; a and a.b for `from a import b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(package, node)
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _origin(package: str, node: ast.ImportFrom) -> str:
    """The absolute module name of `from … import`."""
    parents = package.split(".")[: len(package.split(".")) - (node.level - 1)] if node.level else []
    return ".".join([*parents, node.module] if node.module else parents)


def _heads(name: str) -> list[str]:
    """`a.b.c` → a, a.b, a.b.c, which are all imported with the last."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _file_of(root: Path, module: str) -> Path | None:
    """The module's file, in the project or installed; None if there is none."""
    file = _in_project(root, module)
    if file is not None:
        return file
    try:
        return _file(_below(find_spec(module.partition(".")[0]), module))
    except ValueError:  # loaded without a spec, as __main__ is
        return None


def _in_project(root: Path, module: str) -> Path | None:
    """The file of a module of the project or of Graft's packages; None if it is another's."""
    package = module.partition(".")[0]
    folder = code_folder(root) if package in PACKAGES else root
    return _file(_below(PathFinder.find_spec(package, [str(folder)]), module))


def _below(spec: ModuleSpec | None, module: str) -> ModuleSpec | None:
    """The spec of a module from that of its top-level package, without importing any package."""
    for name in _heads(module)[1:]:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


def _file(spec: ModuleSpec | None) -> Path | None:
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def parse_module(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        raise GraftError(f"{file}{line}: not Python ({error.args[0]}); fix it") from None


def _defined(body: Sequence[ast.AST]) -> Iterator[str]:
    """Names bound at the top level of a module, in branches too; `*` for `from … import *`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
        elif not isinstance(node, ast.Lambda):
            yield from _defined(list(ast.iter_child_nodes(node)))
