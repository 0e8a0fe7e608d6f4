"""The warm start of a run: supervised training of a pretrained base before the first round, if it has one."""

from os.path import isfile  # pathlib's own may raise for the id of a model
from pathlib import Path

from tasks.environments.prompts import SCRATCH
from tasks.params.params import Params


def is_pretrained(root: Path, params: Params) -> bool:
    """Whether the base is a model of others: neither from scratch nor an earlier policy, which is continued as it is.

    `root`: the project's folder.
    """
    base = params.policy.base
    return base != SCRATCH and not isfile(root / base / "lineage.json")


def has_warm_start(root: Path, params: Params) -> bool:
    """Whether `bootstrap.epochs` asks for a warm start of a pretrained base."""
    return params.bootstrap.epochs not in ("auto", 0) and is_pretrained(root, params)
