"""Law: the sources of a stage are exactly the files that it computes with."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from flows.stages.dvc_yaml import MODULES
from flows.stages.sources import digests, refuse_changed_files, refuse_outdated, sources_of, write
from tasks.artifacts import digest_path
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.sources.process_sources import source_digests
from tests.support.params_file import override
from tests.support.stage_params import SHIPPED, shipped_params

ROOT = Path(__file__).parents[3]


def project(root: Path, **files: str) -> Path:
    """`tasks__room__task="import …"` → tasks/room/task.py."""
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(root: Path) -> list[str]:
    return [path.removeprefix("tasks/") for path in sources_of(root, "tasks.room.task")]


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
        "from pathlib import Path\nPath(__file__).parents[2] / 'tasks.ground'",
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


def test_imports_are_followed_and_may_be_circular(tmp_path: Path) -> None:
    files = {"a": "from tasks import b", "b": "def f():\n    import tasks.a, tasks.c", "c": "", "unused": ""}
    texts = {f"tasks__{name}": text for name, text in files.items()}
    root = project(tmp_path, tasks__room__task="from tasks.a import f", **texts)
    assert names(root) == ["a.py", "b.py", "c.py", "room/task.py"]


def test_a_file_that_is_started_by_its_path_is_seen(tmp_path: Path) -> None:
    """And what it imports; data next to a module counts too."""
    started = "from pathlib import Path\nPath(__file__).with_name('child.py')\nPath(__file__).with_name('words.txt')"
    root = project(tmp_path, tasks__room__task=started, tasks__room__child="import tasks.ground", tasks__ground="")
    (root / "tasks" / "room" / "words.txt").write_text("a\n")
    assert names(root) == ["ground.py", "room/child.py", "room/task.py", "room/words.txt"]


def test_data_beside_modules_is_a_source_of_its_stage_and_packaged() -> None:
    data = {file.relative_to(ROOT).as_posix() for file in (ROOT / "tasks").rglob("*.yaml")}
    template = "tasks/params/shipped.yaml"  # read before a stage, for params that are missing
    assert "tasks/environments/word_problems/words.yaml" in data
    assert data - {template} <= {file for stage in MODULES for file in digests(ROOT, stage, SHIPPED)}
    assert data <= source_digests().keys()
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert data <= {f"{package.replace('.', '/')}/{name}" for package, names in packages.items() for name in names}


def test_what_a_stage_imports_when_it_runs_is_listed() -> None:
    """Python's own list of loaded modules, for the stages that start fast."""
    fast = [MODULES[stage] for stage in ("problems", "coldstart", "collect", "reward")]
    code = (
        "import importlib, json, sys\n"
        "importlib.import_module(sys.argv[1])\n"
        "files = [m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] in ('tasks', 'flows')]\n"
        "print(json.dumps(files))"
    )
    for module in fast:
        printed = subprocess.check_output([sys.executable, "-c", code, module], cwd=ROOT, text=True)
        loaded = {Path(file).relative_to(ROOT).as_posix() for file in json.loads(printed)}
        listed = set(sources_of(ROOT, module))
        assert {file for file in loaded if not file.endswith("__init__.py")} <= listed


def test_each_stage_has_a_file_of_its_sources(tmp_path: Path) -> None:
    params = linked_project(tmp_path)
    write(tmp_path)
    assert {file.stem for file in (tmp_path / "run" / "sources").iterdir()} == set(MODULES)
    for stage, module in MODULES.items():
        listed = json.loads((tmp_path / "run" / "sources" / f"{stage}.json").read_text())
        assert set(sources_of(ROOT, module)) <= listed.keys()
        assert listed == {file: digest_path(ROOT / file) for file in sorted(listed)}
        refuse_outdated(tmp_path, stage, params)


STORIES, TAGS = "tasks/environments/word_problems/words.yaml", "tasks/environments/tags.py"
PARITY = (
    "from tasks.environments.word_problems.worked_answers import WorkedAnswers\n\nclass Parity(WorkedAnswers): ...\n"
)


@pytest.mark.parametrize(
    ("environment", "used"), [("answer", {STORIES, TAGS}), ("parity:Parity", {STORIES}), ("recipes.code:Code", set())]
)
def test_a_stage_depends_on_the_environment_that_is_named_and_on_no_other(
    tmp_path: Path, environment: str, used: set[str]
) -> None:
    linked_project(tmp_path)
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    params = shipped_params(environment=environment)
    for stage in MODULES:
        sources = digests(project(tmp_path, parity=PARITY), stage, params).keys()
        assert sources & {STORIES, TAGS} == (set() if stage in ("choose", "update") else used), stage


def linked_project(root: Path) -> Params:
    """A folder with links to the real sources and params of its own."""
    for name in ("tasks", "dvc.yaml"):
        (root / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "params.yaml", root)
    return load_params(root / "params.yaml")


def test_the_file_of_a_stage_has_the_users_files_that_it_reads_too(tmp_path: Path) -> None:
    linked_project(tmp_path)
    terms = project(tmp_path, manners="def polite(problem, text, results): ...\n") / "manners.py"
    override(tmp_path / "params.yaml", ['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]'])
    params = load_params(tmp_path / "params.yaml")
    write(tmp_path)
    listed = {file.stem: json.loads(file.read_text()) for file in (tmp_path / "run" / "sources").iterdir()}
    assert [stage for stage in MODULES if "rewards.own" in listed[stage]] == ["reward", "select"]
    refuse_changed_files(tmp_path, "reward", params)
    terms.write_text(terms.read_text() + "# changed\n")
    for stage in MODULES:
        if stage not in ("reward", "select"):
            refuse_outdated(tmp_path, stage, params)
            refuse_changed_files(tmp_path, stage, params)
    with pytest.raises(GraftError, match=r"run/sources/reward\.json: not of the source files as they are now"):
        refuse_outdated(tmp_path, "reward", params)
    with pytest.raises(GraftError, match=r"^rewards\.own: changed while reward was running, .*; run it again$"):
        refuse_changed_files(tmp_path, "reward", params)


def test_a_source_that_is_gone_is_named(tmp_path: Path) -> None:
    root = project(tmp_path, tasks__room__task="from tasks.room.a import f")
    with pytest.raises(GraftError, match=r"tasks/room/task\.py: imports tasks\.room\.a, which is not there; restore"):
        sources_of(root, "tasks.room.task")


def test_an_import_that_comes_later_is_seen_by_the_same_process(tmp_path: Path) -> None:
    root = project(tmp_path, tasks__room__task="from tasks import a")
    assert names(root) == ["room/task.py"]
    project(tmp_path, tasks__a="from tasks import b", tasks__b="")
    assert names(root) == ["a.py", "b.py", "room/task.py"]
    project(tmp_path, tasks__a="")
    assert names(root) == ["a.py", "room/task.py"]
