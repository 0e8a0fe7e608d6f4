"""The contract with DVC beyond its documented API: what Graft replaces, and with which arguments.

A release of DVC that gives one of them another argument fails here by name. What they do is the subject of the other
tests of this folder, and of `tests/project`, which compares both drivers.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]

REPLACED = {
    "dvc.rwlock._edit_rwlock": "lock_dir fs hardlink",
    "dvc.utils.serialize._common._dump_data": "path data dumper fs dumper_args",
    "dvc.utils.serialize._yaml._dump_data": "path data dumper fs dumper_args",
    "dvc_data.hashfile.state.State": "root_dir tmp_dir ignore",
    "dvc_data.hashfile.db.local.LocalHashFileDB.check": "oid check_hash _info",
    "dvc.stage.Stage.reproduce": "interactive kwargs",
    "dvc.stage.Stage.run": "dry no_commit force allow_missing no_download kwargs",
    "dvc.stage.Stage._run_stage": "dry force kwargs",
    "dvc.stage.Stage.changed": "allow_missing upstream",
    "dvc.stage.cache.StageCache._load_cache": "key value",
    "dvc.stage.cache.StageCache._get_cache_path": "key value",
    "dvc.stage.cache.StageCache.restore": "stage run_cache pull dry",
}
"""Function → all of its arguments, since Graft puts another in its place or calls it from there."""

ARGUMENTS = """
import inspect, json, pkgutil, sys
signatures = {name: inspect.signature(pkgutil.resolve_name(name)) for name in sys.argv[1:]}
print(json.dumps({name: [a for a in found.parameters if a != "self"] for name, found in signatures.items()}))
"""


def test_what_is_replaced_has_these_arguments_and_no_others() -> None:
    """Asked of a process in which nothing is replaced yet."""
    expected = {name: listed.split() for name, listed in REPLACED.items()}
    ended = subprocess.run([sys.executable, "-c", ARGUMENTS, *expected], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout) == expected
