"""The contract with DVC beyond its documented API: what Graft imports, calls and replaces, and with which arguments.

A release of DVC that renames one of them, or its arguments, fails here by name. What they do is the subject of the
other tests of this folder, and of `tests/project`, which compares both drivers.
"""

import ast
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.output import Output
from dvc.repo import Repo
from dvc.stage import Stage

ROOT = Path(__file__).parents[4]

TYPES = (
    *("dvc.api.DVCFileSystem", "dvc.config.Config", "dvc.dependency.ParamsDependency", "dvc.fs.LocalFileSystem"),
    *("dvc.exceptions.CacheLinkError", "dvc.exceptions.DvcException", "dvc.exceptions.NotDvcRepoError"),
    *("dvc.lock.LockError", "dvc.output.OutputDoesNotExistError", "dvc.repo.Repo", "dvc.scm.NoSCM"),
    *("dvc.scm.RevError", "dvc.scm.SCMError", "dvc.stage.cache.RunCacheNotFoundError", "dvc.stage.cache.StageCache"),
    *("dvc.utils.serialize.EncodingError", "dvc_data.hashfile.db.HashFileDB", "dvc_data.hashfile.hash_info.HashInfo"),
    *("dvc_data.hashfile.meta.Meta", "dvc_data.hashfile.tree.Tree"),
)

FUNCTIONS = {
    "dvc.dvcfile.load_file": "repo path",
    "dvc.lock.make_lock": "lockfile tmp_dir wait",
    "dvc.repo.lock_repo": "repo",
    "dvc.repo.reproduce.get_active_graph": "graph",
    "dvc.repo.reproduce.plan_repro": "graph",
    "dvc.rwlock.SCHEMA": "data",
    "dvc.scm.resolve_rev": "scm rev",
    "dvc.stage.decorators.rwlocked": "call read write",
    "dvc.stage.decorators.unlocked_repo": "f",
    "dvc_data.hashfile.gc.gc": "odb used",
    "dvc_data.hashfile.hash.file_md5": "fname fs",
}
"""Function → the arguments that Graft passes."""

REPLACED = {
    "dvc.rwlock._edit_rwlock": "lock_dir fs hardlink",
    "dvc.utils.serialize._common._dump_data": "path data dumper fs dumper_args",
    "dvc.utils.serialize._yaml._dump_data": "path data dumper fs dumper_args",
    "dvc_data.hashfile.state.State": "root_dir tmp_dir ignore",
}
"""Function → all of its arguments, since Graft puts another in its place."""

METHODS = {
    "dvc.stage.Stage": {
        "reproduce": "interactive kwargs",
        "run": "dry no_commit force allow_missing no_download kwargs",
        "_run_stage": "dry force kwargs",
        "changed": "allow_missing upstream",
    },
    "dvc.stage.cache.StageCache": {
        "_load_cache": "key value",
        "_get_cache_path": "key value",
        "restore": "stage run_cache pull dry",
    },
}
"""Method → all of its arguments, since Graft puts another in its place or calls it from there."""

ARGUMENTS = """
import inspect, json, pkgutil, sys
signatures = {name: inspect.signature(pkgutil.resolve_name(name)) for name in sys.argv[1:]}
print(json.dumps({name: [a for a in found.parameters if a != "self"] for name, found in signatures.items()}))
"""

ATTRIBUTES = {
    Stage: "addressing deps_cached changed_outs changed_stage dump reload save_deps",
    Output: "changed_cache checkout remove status exists",
    Repo: "index reproduce scm_context used_objs close",
}


def imported() -> set[str]:
    """The names that the product imports from DVC."""
    nodes = (node for file in (ROOT / "flows").rglob("*.py") for node in ast.walk(ast.parse(file.read_text())))
    modules = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module)
    named = ((node.module, name.name) for node in modules for name in node.names)
    return {f"{module}.{name}" for module, name in named if str(module).startswith("dvc")}


@pytest.fixture(scope="module")
def arguments() -> dict[str, list[str]]:
    """Name → arguments, in a process in which nothing is replaced yet."""
    methods = [f"{owner}.{name}" for owner, named in METHODS.items() for name in named]
    names = [*FUNCTIONS, *REPLACED, *methods]
    ended = subprocess.run([sys.executable, "-c", ARGUMENTS, *names], capture_output=True, text=True, check=True)
    return dict(json.loads(ended.stdout))


def test_all_that_is_imported_is_in_the_contract() -> None:
    modules = {".".join(name.split(".")[:-1]) for name in REPLACED} | {"dvc.rwlock"}
    names = {"dvc.rwlock.RWLOCK_FILE", "dvc.rwlock.RWLOCK_LOCK"}
    assert imported() <= {*TYPES, *FUNCTIONS, *REPLACED} | modules | names


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_there(name: str) -> None:
    assert callable(pkgutil.resolve_name(name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_the_arguments_that_are_passed(name: str, arguments: dict[str, list[str]]) -> None:
    assert set(FUNCTIONS[name].split()) <= set(arguments[name])


@pytest.mark.parametrize("name", REPLACED)
def test_a_function_that_is_replaced_has_these_arguments_and_no_others(
    name: str, arguments: dict[str, list[str]]
) -> None:
    assert arguments[name] == REPLACED[name].split()


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner in METHODS for name in METHODS[owner]])
def test_a_method_that_is_replaced_has_these_arguments_and_no_others(
    owner: str, name: str, arguments: dict[str, list[str]]
) -> None:
    assert arguments[f"{owner}.{name}"] == METHODS[owner][name].split()


@pytest.mark.parametrize("owner", ATTRIBUTES)
def test_an_object_has_the_methods_that_are_called(owner: type) -> None:
    assert [name for name in ATTRIBUTES[owner].split() if not hasattr(owner, name)] == []
