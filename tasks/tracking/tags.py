"""Names of the tags of a run that Graft sets and reads."""

import hashlib

WORKSPACE = "workspace"
"""Host and folder of the project. Several projects may share an experiment."""

LOCK = "dvc_lock_md5"
"""md5 of `dvc.lock` at the end of the run."""

CHANGED = "changed"
"""What differs from the last run of the workspace that succeeded."""

OVERRIDES = "overrides"
"""Params that differ from the committed `params.yaml`."""

RUN_NAME = "name"
DESCRIPTION = "description"  # in Markdown
SOURCE = "project"  # name of its folder
USER = "user"
COMMIT = "git_commit"


def lock_digest(lock: bytes) -> str:
    """The value of the tag LOCK for the bytes of a `dvc.lock`."""
    return hashlib.md5(lock).hexdigest()
