"""Law: `dvc.yaml` lists exactly the source files that a stage computes with."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows.pipeline import MODULES, definition, parse
from flows.sources import outdated, sources_of, write

ROOT = Path(__file__).parents[2]


def project(root: Path, **files: str) -> Path:
    """`tasks__room__task="import …"` → tasks/room/task.py."""
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(root: Path) -> list[str]:
    return [path.removeprefix("tasks/") for path in sources_of(root, "tasks.room.task")]


def test_dvc_yaml_is_in_sync() -> None:
    assert outdated(ROOT) == [], "run: python -m flows.sources --write"


def test_init_files_are_empty() -> None:
    """They are left out of the dependencies, so nothing may be computed in them."""
    assert [p for p in [*ROOT.glob("tasks/**/__init__.py"), *ROOT.glob("flows/**/__init__.py")] if p.read_text()] == []


@pytest.mark.parametrize(
    "text",
    [
        "import tasks.ground",
        "import tasks.ground as g",
        "from tasks import ground",
        "from tasks.ground import f",
        "from tasks.ground import f as g, h",
        "from .. import ground",
        "from ..ground import f",
        "def run():\n    from tasks.ground import f\n",
        "class A:\n    def run(self):\n        import json, tasks.ground\n",
        "if True:\n    try:\n        import tasks.ground\n    except ImportError:\n        raise\n",
        "import subprocess\nsubprocess.run(['python', '-m', 'tasks.ground'])",
        "from pathlib import Path\nPath(__file__).parents[1] / 'tasks.ground'",
    ],
)
def test_every_way_to_use_a_module_is_seen(tmp_path: Path, text: str) -> None:
    assert names(project(tmp_path, tasks__room__task=text, tasks__ground="")) == ["ground.py", "room/task.py"]


@pytest.mark.parametrize(
    "text",
    [
        "import os, torch",
        "'''tasks.ground is not used here'''",
        "# import tasks.ground",
        "from tasks.room import task",
        "x = 'ground.py'",
        "x = '', '.', '..', 'a/b', 'tasks', '\\0'",
    ],
)
def test_nothing_else_is(tmp_path: Path, text: str) -> None:
    assert names(project(tmp_path, tasks__room__task=text, tasks__ground="")) == ["room/task.py"]


def test_imports_are_followed_and_may_go_round(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        tasks__room__task="from tasks.a import f",
        tasks__a="from tasks import b",
        tasks__b="def f():\n    import tasks.a, tasks.c",
        tasks__c="",
        tasks__unused="",
    )
    assert names(root) == ["a.py", "b.py", "c.py", "room/task.py"]


def test_a_file_that_is_started_by_its_path_is_seen(tmp_path: Path) -> None:
    """And what it imports; data beside a module counts too."""
    started = "from pathlib import Path\nPath(__file__).with_name('child.py')\nPath(__file__).with_name('words.txt')"
    root = project(tmp_path, tasks__room__task=started, tasks__room__child="import tasks.ground", tasks__ground="")
    (root / "tasks" / "room" / "words.txt").write_text("a\n")
    assert names(root) == ["ground.py", "room/child.py", "room/task.py", "room/words.txt"]


def test_what_a_stage_imports_when_it_runs_is_listed() -> None:
    """Python's own list of loaded modules, for the stages that start fast."""
    fast = {stage: MODULES[stage] for stage in ("problems", "coldstart", "collect", "reward")}
    code = (
        "import importlib, json, sys\n"
        "importlib.import_module(sys.argv[1])\n"
        "files = [m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] in ('tasks', 'flows')]\n"
        "print(json.dumps(files))"
    )
    for stage, module in fast.items():
        ended = subprocess.run(
            [sys.executable, "-c", code, module], cwd=ROOT, capture_output=True, text=True, check=True
        )
        loaded = {Path(file).relative_to(ROOT).as_posix() for file in json.loads(ended.stdout)}
        listed = set(definition(parse(ROOT / "dvc.yaml"), stage)["deps"])
        assert {file for file in loaded if not file.endswith("__init__.py")} <= listed


def test_write_changes_the_source_dependencies_and_nothing_else(tmp_path: Path) -> None:
    good = (ROOT / "dvc.yaml").read_text()
    (tmp_path / "tasks").symlink_to(ROOT / "tasks")
    lines = good.splitlines(keepends=True)
    (tmp_path / "dvc.yaml").write_text("".join(line for line in lines if "- tasks/errors.py" not in line))
    assert write(tmp_path) == list(MODULES)
    assert (tmp_path / "dvc.yaml").read_text() == good
    assert write(tmp_path) == []
