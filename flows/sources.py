"""Which source files a stage computes with: the files that `dvc.yaml` lists as its dependencies.

    python -m flows.sources            # tell which stages' lists are out of date; exit code 1 if any
    python -m flows.sources --write    # bring them up to date

Read from the source text, nothing is imported. A stage depends on its module and on all that this module imports,
directly or not, inside functions too. Counted as well: a text that is exactly the name of a file beside the module
(`Path(__file__).with_name("zygote.py")`) or of a module (`python -m tasks.workflows.zygote`), because such a file
is started rather than imported.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from flows.pipeline import MODULES, definition, parse
from tasks.artifacts import write_text
from tasks.modules import imported_names

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


def listed_deps(root: Path, document: Any, stage: str) -> list[str]:
    """A stage's dependencies as they should stand in `dvc.yaml`: its data as listed there, then its sources."""
    listed = [str(dep) for dep in definition(document, stage)["deps"]]
    return [dep for dep in listed if not dep.startswith("tasks/")] + sources_of(root, MODULES[stage])


def outdated(root: Path, stages: Iterable[str] = MODULES) -> list[str]:
    """Those of `stages` whose dependencies in `dvc.yaml` differ from what their modules import."""
    document = parse(root / "dvc.yaml")
    return [s for s in stages if list(definition(document, s)["deps"]) != listed_deps(root, document, s)]


def write(root: Path) -> list[str]:
    """Rewrite the source dependencies in `dvc.yaml`. Returns the stages that changed."""
    changed = outdated(root)
    if changed:
        document = parse(root / "dvc.yaml")
        for stage in changed:
            definition(document, stage)["deps"][:] = listed_deps(root, document, stage)
        write_text(root / "dvc.yaml", _dump(document))
    return changed


def _uses(root: Path, file: Path) -> Iterator[Path | None]:
    package = file.relative_to(root).parent.as_posix().replace("/", ".")
    tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
    yield from (_file_of(root, name) for name in imported_names(tree, package))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _started(root, file, node.value)


def _started(root: Path, file: Path, text: str) -> Path | None:
    if not text or len(text) > 100 or any(c.isspace() or c == "/" for c in text):
        return None
    beside = file.with_name(text) if text not in (".", "..") else file
    return beside if beside.is_file() and beside != file else _file_of(root, text)


def _file_of(root: Path, module: str) -> Path | None:
    """The file of a module of this project; None for a package or somebody else's module."""
    parts = module.split(".")
    path = root.joinpath(*parts).with_suffix(".py")
    return path if parts[0] in PACKAGES and all(parts) and path.is_file() else None


def _dump(document: Any) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 4096
    stream = StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def main(arguments: list[str]) -> int:
    """0 where `dvc.yaml` is up to date, or was brought up to date."""
    root = Path.cwd()
    if arguments == ["--write"]:
        print("\n".join(f"dvc.yaml: {stage} brought up to date" for stage in write(root)) or "dvc.yaml: up to date")
        return 0
    stale = outdated(root)
    print("\n".join(f"dvc.yaml: {stage} is out of date; python -m flows.sources --write" for stage in stale))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
