"""The source files that a stage depends on, and the user's files that it reads, with their digests.

The stage `sources` writes one file per stage, `run/sources/STAGE.json`: path, or the param that names a user's file →
digest. Each stage depends on its own file, so that an edit makes stale only the stages that use the edited file.

Source text is parsed, not imported. A stage depends on its module and on everything that this module imports, directly
or not, inside functions too; and on files that it starts or reads: a string that is exactly the name of a file in the
module's folder (`Path(__file__).with_name("words.yaml")`) or of a module (`python -m tasks.reward.term_worker`).
"""

import ast
import json
import os
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path

from flows.stages.dvc_yaml import MODULES, declared_params
from flows.stages.user_files import digests_for, user_files
from tasks.artifacts import atomic_folder, digest_path, read_text, write_text
from tasks.environments.lookup import path_of
from tasks.errors import GraftError
from tasks.layout import KNOWN, REPLAY, Layout
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.sources.process_sources import code_folder
from tasks.sources.user_modules import imported_names, parse_module
from tasks.sources.user_modules import sources_of as modules_of_user

SOURCES = "sources"
"""The stage that writes these files."""

STAGE_PACKAGES = ("tasks", "flows")
"""The packages that stages consist of; an environment of `recipes` is found as a user's is."""


def sources_of(root: Path, module: str) -> list[str]:
    """The files that `module` depends on, itself included, relative to the packages' folder `root`, sorted.

    `__init__.py` files are left out: they are empty.
    """
    paths, files, waiting = _list_paths(root), set[str](), [_path_of(module)]
    while waiting:
        file = waiting.pop()
        if file in paths and file not in files:
            files.add(file)
            waiting += _uses(root, file, paths) if file.endswith(".py") else []
    return sorted(files)


def digests(root: Path, stage: str, params: Params) -> dict[str, str]:
    """Path → digest of a stage's source files as they are now, with those of the environment that it reads."""
    modules = [MODULES[stage]]
    if "environment" in declared_params(root, stage):
        modules += _modules_of_environment(root, path_of(params.environment.name).partition(":")[0])
    code = code_folder(root)
    files = {file for module in modules for file in sources_of(code, module)}
    return {file: digest_path(code / file) for file in sorted(files)}


def _modules_of_environment(root: Path, module: str) -> list[str]:
    """The module itself if it is ours; those of ours that it imports, directly or not, if it is the user's."""
    if module.partition(".")[0] in STAGE_PACKAGES:
        return [module]
    imported = (name for name, _ in modules_of_user(root, [module]))
    return [name for name in imported if name.partition(".")[0] in STAGE_PACKAGES]


def listed_digests(root: Path, stage: str, params: Params) -> dict[str, str]:
    """`digests`, and param → digest of the user's files that the stage reads."""
    read = digests_for(user_files(root, params), declared_params(root, stage))
    if stage == "problems":  # of an earlier policy
        files = {name: root / params.policy.base / name for name in (KNOWN, REPLAY)}
        read |= {f"policy.base/{name}": digest_path(file) for name, file in files.items() if os.path.isfile(file)}
    return digests(root, stage, params) | read


def text_of(digests: Mapping[str, str]) -> str:
    """The content of `run/sources/STAGE.json` for the stage's `listed_digests`."""
    return json.dumps(digests, indent=2) + "\n"


def write(root: Path) -> None:
    """Compute the stage `sources`."""
    params = load_params(root / "params.yaml")
    with atomic_folder(Layout(root).sources) as folder:
        for stage in MODULES:
            write_text(folder / f"{stage}.json", text_of(listed_digests(root, stage, params)))


def is_current(root: Path, stage: str, params: Params) -> bool:
    """Whether a stage's file is that of the source files and the user's files as they are now."""
    file = Layout(root).sources / f"{stage}.json"
    return file.exists() and file.read_bytes() == text_of(listed_digests(root, stage, params)).encode()


def refuse_outdated(root: Path, stage: str, params: Params) -> None:
    """Raise GraftError if the files differ from those that the stage's result would be recorded with."""
    if not is_current(root, stage, params):
        file = (Layout(root).sources / f"{stage}.json").relative_to(root)
        raise GraftError(f"{file}: not of the source files as they are now; run: dvc repro sources")


def refuse_changed_files(root: Path, stage: str, params: Params) -> None:
    """Raise GraftError if the user's files changed while the stage ran, which may have read them at any time."""
    listed = json.loads(read_text(Layout(root).sources / f"{stage}.json"))
    for param, digest in digests_for(user_files(root, params), declared_params(root, stage)).items():
        if listed.get(param) != digest:
            raise GraftError(
                f"{param}: changed while {stage} was running, so its result is of neither version; run it again"
            )


def _list_paths(root: Path) -> set[str]:
    """The files of the packages relative to `root`, and the folders, each with a slash at its end."""
    paths = set()
    for folder, _, names in chain.from_iterable(os.walk(root / package) for package in STAGE_PACKAGES):
        prefix = f"{Path(folder).relative_to(root).as_posix()}/"
        paths |= {prefix, *(prefix + name for name in names)}
    return paths


def _uses(root: Path, file: str, paths: set[str]) -> list[str]:
    """The files that a file may import, start or read."""
    folder = file.rpartition("/")[0]
    imported, texts = _named(root / file, folder.replace("/", "."), digest_path(root / file))
    for name in imported:
        _refuse_missing(file, name, paths)
    neighbours = (f"{folder}/{text}" for text in texts)
    return [*map(_path_of, imported), *map(_path_of, texts), *(name for name in neighbours if name != file)]


@cache
def _named(file: Path, package: str, digest: str) -> tuple[list[str], list[str]]:  # noqa: ARG001 (of the file's text)
    """The names that a file imports, and the strings in it that may name a file."""
    nodes = list(ast.walk(tree := parse_module(file)))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return list(imported_names(tree, package)), [text for text in texts if _one_word(text)]


def _refuse_missing(file: str, name: str, paths: set[str]) -> None:
    """`a.b.c` may be a name in the module `a.b`, which then has to be there."""
    module = name.rpartition(".")[0]
    ours = module.partition(".")[0] in STAGE_PACKAGES
    if ours and paths.isdisjoint((f"{module.replace('.', '/')}/", _path_of(module))):
        raise GraftError(f"{file}: imports {module}, which is not there; restore it, or fix the import")


def _one_word(text: str) -> bool:
    return 0 < len(text) <= 100 and text not in (".", "..") and not any(c.isspace() or c == "/" for c in text)


def _path_of(module: str) -> str:
    """Where a module's file would be."""
    return f"{module.replace('.', '/')}.py"
