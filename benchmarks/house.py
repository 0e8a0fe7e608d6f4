"""Size and structure of the project, read from its tree: lines, params, words, what is written twice, who names whom.

`parses_of_a_round` comes from one round of the shipped params in small sizes, 7 problems, which takes some seconds.

    python -m benchmarks.house

Prints a table of the largest folders and files, then one JSON object as the last line of standard output.
"""

import ast
import json
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import BaseModel

from tasks.params.params import Params
from tests.support.extensions import EXAMPLES
from tests.support.house import (
    PRODUCT,
    ROOT,
    benchmark_imports,
    environments_named_in_core,
    functions_of_the_loop,
    lines,
    loop_faults,
    modules,
    stages_of_recipes,
    types_defined_twice,
)
from tests.support.parses import parses_of_a_round

LIBRARIES = ("dvc", "dvc_data", "dvc_objects", "prefect", "mlflow", "torch", "transformers", "peft", "sqlalchemy")


def patched_attributes(file: Path) -> Iterator[str]:
    """`name.attribute` for each assignment in `file` to an attribute of what it imported from one of `LIBRARIES`."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {(a.asname or a.name).split(".")[0] for a in node.names if a.name.split(".")[0] in LIBRARIES}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in LIBRARIES:
            imported |= {a.asname or a.name for a in node.names}
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in (part for each in targets for part in ast.walk(each)):
            if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                owner = ast.unparse(target.value)
                if owner.split(".")[0].split("(")[0] in imported:
                    yield f"{owner}.{target.attr}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr" and node.args:
            owner = ast.unparse(node.args[0])
            if owner.split(".")[0] in imported:
                yield f"{owner}.{ast.unparse(node.args[1])}"


def count_params(model: type[BaseModel]) -> int:
    """Fields of `model` and of its sections."""
    types = [field.annotation for field in model.model_fields.values()]
    return sum(count_params(t) if isinstance(t, type) and issubclass(t, BaseModel) else 1 for t in types)


def words(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").split()) for file in files)


def broken_contracts() -> int:
    """Contracts of `.importlinter` that do not hold; the first is that no module imports one above it."""
    ended = subprocess.run(["lint-imports"], cwd=ROOT, capture_output=True, text=True)
    return ended.stdout.count(" BROKEN") if ended.returncode in (0, 1) else -1


def main() -> None:
    readme = ROOT / "README.md"
    product = modules(*PRODUCT)
    folders = Counter(file.parent.relative_to(ROOT).as_posix() for file in modules(*PRODUCT, "benchmarks"))
    sizes = Counter({file.relative_to(ROOT).as_posix(): lines([file]) for file in product})
    patches = [f"{file.relative_to(ROOT)}: {name}" for file in product for name in patched_attributes(file)]
    for title, found in (("modules in a folder", folders), ("lines in a file", sizes)):
        print(title)
        for name, count in found.most_common(5):
            print(f"  {count:5}  {name}")
    print("patched attributes", *(patches or ["none"]), sep="\n  ")
    twice = types_defined_twice(product)
    print(
        "types defined twice",
        *([f"{name}: {', '.join(files)}" for name, files in twice.items()] or ["none"]),
        sep="\n  ",
    )
    faults = loop_faults()
    print("the loop", *(faults or [f"{name}: {stage}" for name, stage in functions_of_the_loop().items()]), sep="\n  ")
    with TemporaryDirectory() as folder:
        parses = parses_of_a_round(Path(folder, "project"))
    environments = environments_named_in_core()
    print("environments named in the core", *(environments or ["none"]), sep="\n  ")
    named = [f for f in product if "tasks/tracking/" not in f.as_posix() and "mlflow" in f.read_text().lower()]
    counts = {
        "readme_lines": lines([readme]),
        "readme_words": words([readme]),
        "docs_words": words(sorted((ROOT / "docs").glob("*.md"))),
        "largest_folder": folders.most_common(1)[0][1],
        "largest_file": sizes.most_common(1)[0][1],
        "product_lines": lines(product),
        "recipe_lines": lines(modules("recipes")),
        "test_lines": lines(modules("tests")),
        "files": len(product),
        "median_file_lines": statistics.median(sizes.values()),
        "params": count_params(Params),
        "benchmark_lines": lines(modules("benchmarks")),
        "type_names_defined_twice": len(twice),
        "loop_written_once": int(not faults),
        "upward_imports": broken_contracts(),
        "tests_import_benchmarks": len(benchmark_imports()),
        "modules_that_name_mlflow": len(named),
        "parses_of_a_round": parses,
        "environments_named_in_core": len(environments),
        "doors": len(EXAMPLES),
        "stages_stale_by_a_recipe": len(stages_of_recipes()),
        "patched_attributes": len(patches),
    }
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
