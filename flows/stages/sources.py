"""Which source files a stage computes with.

The stage `sources` writes a file for each other stage, `run/sources/STAGE.json`: path → digest. Each stage depends on
its own of them, so that an edit makes those stages stale that use the edited file, and no others.

Read from the source text, nothing is imported. A stage depends on its module and on all that this module imports,
directly or not, inside functions too. Counted as well: a text that is exactly the name of a file beside the module
(`Path(__file__).with_name("zygote.py")`) or of a module (`python -m tasks.rewards.term_worker`), because such a file
is started rather than imported.
"""

import ast
import json
from functools import cache
from pathlib import Path

from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import atomic_folder, digest_path, write_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.sources.user_modules import imported_names, parse_module

SOURCES = "sources"
"""The address of the stage that writes these files."""

PACKAGES = ("tasks", "flows")


def sources_of(root: Path, module: str) -> list[str]:
    """The files that `module` computes with, itself included, relative to `root`, sorted.

    `__init__.py` files are left out: they are empty.
    """
    found: set[Path] = set()
    waiting = [_file_of(root, module)]
    while waiting:
        file = waiting.pop()
        if file is None or file in found:
            continue
        found.add(file)
        if file.suffix == ".py":
            waiting += _uses(root, file)
    return sorted(file.relative_to(root).as_posix() for file in found)


def digests(root: Path, stage: str) -> dict[str, str]:
    """Path → digest of a stage's source files as they are now."""
    return {file: digest_path(root / file) for file in sources_of(root, MODULES[stage])}


def text_of(root: Path, stage: str) -> str:
    """What `run/sources/STAGE.json` should hold now."""
    return json.dumps(digests(root, stage), indent=2) + "\n"


def write(root: Path) -> None:
    """Compute the stage `sources`."""
    with atomic_folder(Layout(root).sources) as folder:
        for stage in MODULES:
            write_text(folder / f"{stage}.json", text_of(root, stage))


def refuse_outdated(root: Path, stage: str) -> None:
    """Raise GraftError where a stage's sources are others than those that its result would be recorded with."""
    file = Layout(root).sources / f"{stage}.json"
    if not file.exists() or file.read_bytes() != text_of(root, stage).encode():
        raise GraftError(f"{file.relative_to(root)}: not of the source files as they are now; run: dvc repro sources")


def _uses(root: Path, file: Path) -> list[Path | None]:
    package = file.relative_to(root).parent.as_posix().replace("/", ".")
    imported, texts = _named(file, package, digest_path(file))
    for name in imported:
        _refuse_missing(root, file, name)
    return [*(_file_of(root, name) for name in imported), *(_started(root, file, text) for text in texts)]


@cache
def _named(file: Path, package: str, digest: str) -> tuple[list[str], list[str]]:  # noqa: ARG001 (of the file's text)
    """What a file imports, and the texts in it that may be the name of a file."""
    nodes = list(ast.walk(tree := parse_module(file)))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return list(imported_names(tree, package)), [text for text in texts if _one_word(text)]


def _refuse_missing(root: Path, file: Path, name: str) -> None:
    """`a.b.c` may be a name in the module `a.b`, which then has to be there."""
    module = name.rpartition(".")[0]
    ours = module.partition(".")[0] in PACKAGES and not root.joinpath(*module.split(".")).is_dir()
    if ours and _file_of(root, module) is None:
        where = file.relative_to(root).as_posix()
        raise GraftError(f"{where}: imports {module}, which is not there; restore it, or mend the import")


def _one_word(text: str) -> bool:
    return 0 < len(text) <= 100 and text not in (".", "..") and not any(c.isspace() or c == "/" for c in text)


def _started(root: Path, file: Path, text: str) -> Path | None:
    beside = file.with_name(text)
    return beside if beside.is_file() and beside != file else _file_of(root, text)


def _file_of(root: Path, module: str) -> Path | None:
    """The file of a module of this project; None for a package or somebody else's module."""
    parts = module.split(".")
    path = root.joinpath(*parts).with_suffix(".py")
    return path if parts[0] in PACKAGES and all(parts) and path.is_file() else None
