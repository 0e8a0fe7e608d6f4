"""The sizes and the names of modules that CONTRIBUTING promises."""

import ast
import re
import tokenize
from collections import Counter
from pathlib import Path

from flows.stages.dvc_yaml import ROUND
from tests.support.house import (
    PRODUCT,
    ROOT,
    benchmark_imports,
    environments_named_in_core,
    functions_of_the_loop,
    imports_of,
    lines,
    loop_faults,
    modules,
    shell,
    stages_of_recipes,
    types_defined_twice,
)

MODULES = modules(*PRODUCT)
HEADLINES = ("What ", "Whether ", "Who ", "How ", "Which ", "Where ", "When ")
STOP_LIST = re.compile(
    "told|heard|hearing|known|seen|asked|tried|kept|found|made|written|left|lost|served|posed|settled|named|running|"
    "asking|rewarding|measuring|fitting|reading|untouched|unread|distrust|beside|whole|lean|still|lone|silent|news|"
    "part|own|utils|util|helpers|helper|manager|misc|common|base|numbers"
)
"""Words that no module is named by: participles, adverbs and metaphors that said nothing to a newcomer."""


PROSE = re.compile(r"\b(anew|whoever|meanwhile|heard|told|tells|mend|mends|judges|beside|by lot|so many|whom)\b")
"""Idioms that the documentation of torch, transformers, DVC and Prefect does not use."""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_a_module_is_named_by_what_it_holds_and_begins_with_a_statement() -> None:
    starts = {file: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) for file in MODULES}
    assert [name(file) for file in MODULES if STOP_LIST.fullmatch(file.stem)] == []
    assert [name(file) for file, start in starts.items() if not start or start.startswith(HEADLINES)] == []


def test_prose_is_plain_english() -> None:
    idioms = []
    for file in MODULES:
        with file.open("rb") as source:
            tokens = list(tokenize.tokenize(source.readline))
        prose = [t for t in tokens if t.type == tokenize.COMMENT or (t.type == tokenize.STRING and '"""' in t.string)]
        idioms += [(name(file), t.start[0], idiom) for t in prose for idiom in PROSE.findall(t.string)]
    assert idioms == []


def test_a_task_is_a_thin_shell_and_no_folder_has_more_than_20_modules() -> None:
    tasks = [file for file in MODULES if file.stem == "task" or file.stem.endswith("_task")]
    assert [name(file) for file in tasks if lines([file]) > 100] == []
    folders = Counter(file.parent for file in modules(*PRODUCT, "benchmarks"))
    assert [name(folder) for folder, count in folders.items() if count > 20] == []


def test_init_files_are_empty() -> None:
    """Sources of a stage are read from the imports of modules; what `__init__.py` did would not be counted."""
    inits = [path for folder in PRODUCT for path in (ROOT / folder).rglob("__init__.py")]
    assert [name(path) for path in inits if path.read_text().strip()] == []


def test_a_type_has_one_definition_and_no_stage_knows_a_recipe() -> None:
    assert types_defined_twice(MODULES) == {}
    assert stages_of_recipes() == []


def test_one_place_chooses_by_the_kind_of_device() -> None:
    """What is for one kind of device is in tasks/model/cpu and tasks/model/cuda."""
    rooms = ("tasks/model/cpu/", "tasks/model/cuda/", "tasks/model/device.py")
    choice = re.compile(r"\.is_cuda|device\.type (==|!=|in|not in) |[!=]= .cuda")
    others = [file for file in MODULES if not name(file).startswith(rooms)]
    assert [name(file) for file in others if choice.search(file.read_text(encoding="utf-8"))] == []


def test_the_core_names_no_environment() -> None:
    assert environments_named_in_core() == []


def test_the_loop_is_written_once() -> None:
    """A round in memory calls what the stages call, and what reads and writes the folder decides nothing by a param."""
    assert set(functions_of_the_loop().values()) == {"search", "collect", "reward", "select", "update"}
    assert {f"{file.parent.name}/{file.stem}" for stage in ROUND for file in shell(stage)} >= {
        *(f"{stage}/task" for stage in ROUND),
        "search/shard",
        "select/validation_rollout",
    }
    assert loop_faults() == []


def test_tests_import_no_benchmark_and_benchmarks_no_test() -> None:
    """What both need is in tests/support, and the lists of attacks beside it."""
    assert benchmark_imports() == []
    assert [(file, name) for file, name in imports_of("benchmarks") if re.match(r"tests\..*\btest_", name)] == []
