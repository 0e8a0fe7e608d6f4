"""Params that differ from the committed `params.yaml`: with the commit, they say with which params a run was made."""

import subprocess
from pathlib import Path

from flows.history.changes import flat_params
from tasks.errors import GraftError
from tasks.params.file import overridden
from tasks.params.params import Params

Overrides = dict[str, tuple[str, str]]
"""Param by its dotted name → the committed and the present value."""


def overrides(root: Path, params: Params) -> Overrides:
    """The params of a run that differ.

    Empty if the last commit has no `params.yaml`, or one of another version of Graft.
    """
    try:
        command = ["git", "show", "HEAD:./params.yaml"]
        text = subprocess.run(
            command, cwd=root, capture_output=True, encoding="utf-8", errors="replace", check=True
        ).stdout
        committed = flat_params(overridden(root / "params.yaml", text, [])[1])
    except (OSError, subprocess.CalledProcessError, GraftError):
        return {}
    return {
        key: (committed.get(key, "null"), value)
        for key, value in sorted(flat_params(params).items())
        if value != committed.get(key, "null") and not key.startswith("rounds.start.")
    }


def as_text(params: Overrides) -> str:
    """`update.beta=0.05 rounds.last=2`: the present values."""
    return " ".join(f"{key}={new}" for key, (_, new) in params.items())
