"""Size and structure of the project, read from its tree, for tests and for `python -m benchmarks.house`."""

import ast
import re
from pathlib import Path

from flows.stages.dvc_yaml import MODULES, ROUND
from flows.stages.sources import sources_of
from tasks.environments.lookup import BUILT_IN, MOVED

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("flows", "tasks")


def modules(*folders: str) -> list[Path]:
    """The Python files below these folders but the `__init__.py`, which are empty."""
    return sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py") if p.name != "__init__.py")


def lines(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def types_of(tree: ast.Module) -> list[str]:
    """Classes and aliases of types (`Name = …`, where constants are in capitals) at the top level of a module."""
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and "TypeVar(" not in ast.unparse(node)]
    targets = [target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)]
    return names + [name for name in targets if re.search("^_?[A-Z].*[a-z]", name)]


def types_defined_twice(files: list[Path]) -> dict[str, list[str]]:
    """Names of types that more than one module defines → these modules."""
    places: dict[str, list[str]] = {}
    for file in files:
        for name in types_of(ast.parse(file.read_text(encoding="utf-8"))):
            places.setdefault(name, []).append(file.relative_to(ROOT).as_posix())
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}


def calls(node: ast.AST) -> set[str]:
    """Names of the functions that a piece of code calls, or hands over to be called."""
    return {
        name.id
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        for name in (call.func, *call.args)
        if isinstance(name, ast.Name)
    }


def functions_of_the_loop() -> dict[str, str]:
    """The functions of stages that a round in memory calls → the stage's package."""
    found = dict[str, str]()
    for module in ("round", "rollout"):
        tree = ast.parse((ROOT / "tasks" / f"{module}.py").read_text(encoding="utf-8"))
        packages = {
            alias.name: str(node.module).split(".")[1]
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tasks.")
            for alias in node.names
            if str(node.module).split(".")[1] in ROUND
        }
        defaults = {
            d.id
            for f in ast.walk(tree)
            if isinstance(f, ast.FunctionDef)
            for d in f.args.defaults
            if isinstance(d, ast.Name)
        }
        found |= {name: packages[name] for name in sorted((calls(tree) | defaults) & packages.keys()) if name.islower()}
    return found


def names_of_params(tree: ast.Module) -> set[str]:
    """Arguments that are params or sections of them, and names that are assigned parts of these."""
    froms = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    types = {a.name for node in froms if (node.module or "").startswith("tasks.params.") for a in node.names}
    arguments = [node for node in ast.walk(tree) if isinstance(node, ast.arg) and node.annotation]
    found = {node.arg for node in arguments if node.annotation and ast.unparse(node.annotation) in types}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).split(".")[0] in found:
            found |= {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return found


def shell(stage: str) -> list[Path]:
    """The modules of a stage that know the project's folder: what decides there, a round in memory cannot call."""
    folder = f"tasks/{stage}/"
    return [ROOT / file for file, name in imports_of(folder) if name == "tasks.layout.Layout"]


def loop_faults() -> list[str]:
    """Functions of the loop that no stage calls, and decisions of a stage's shell by a param."""
    found = []
    stage_calls = {
        stage: set[str]().union(*(calls(ast.parse(f.read_text(encoding="utf-8"))) for f in modules(f"tasks/{stage}")))
        for stage in ROUND
    }
    for name, stage in functions_of_the_loop().items():
        if name not in stage_calls[stage]:
            found.append(f"{name}: not called by the stage {stage}")
    for path in [path for stage in ROUND for path in shell(stage)]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        of_params = names_of_params(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.If | ast.IfExp | ast.Match):
                test = node.subject if isinstance(node, ast.Match) else node.test
                names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
                if names & of_params:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: decides by a param")
    return found


def imports_of(folder: str) -> list[tuple[str, str]]:
    """(file, imported name with its module) of all modules below a folder."""
    imports = []
    for file in modules(folder):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
                imports += [(file.relative_to(ROOT).as_posix(), module + alias.name) for alias in node.names]
    return imports


def benchmark_imports() -> list[str]:
    """Modules of tests/ that import a benchmark."""
    return sorted({file for file, name in imports_of("tests") if name.partition(".")[0] == "benchmarks"})


def stages_of_recipes() -> list[str]:
    """Stages that an edit of a recipe makes stale in a run that does not use it."""
    folders = ("recipes/", "recipes/chess/", "recipes/civil/")
    return [stage for stage, module in MODULES.items() if any(f.startswith(folders) for f in sources_of(ROOT, module))]


def environments_named_in_core() -> list[str]:
    """Places of tasks/ and flows/, but for tasks/environments, where a text is an environment's name or has one in it.

    A name that is also a word for something else, a column `answer` for instance, counts in a statement about an
    environment alone.
    """
    recipes = {path.parent.name for path in (ROOT / "recipes").glob("*/preset.yaml")}
    classes = {path.partition(":")[2] for path in BUILT_IN.values()}
    ambiguous = {*BUILT_IN, *MOVED}
    always = re.compile(rf"\b({'|'.join(sorted((recipes | classes) - ambiguous))})\b|\brecipes\.\w")
    places = []
    for file in modules(*PRODUCT):
        name = file.relative_to(ROOT).as_posix()
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in () if name.startswith("tasks/environments/") else ast.walk(tree):
            heads = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt | ast.ExceptHandler)]
            statement = " ".join(map(ast.unparse, heads)) if isinstance(node, ast.stmt) else ""
            parts = [part for head in heads for part in ast.walk(head) if statement]
            texts = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
            about = re.search("environment", statement, re.IGNORECASE)
            if any(always.search(text) or (about and text in ambiguous) for text in texts):
                places.append(f"{name}:{getattr(node, 'lineno', 1)}")
    return places
