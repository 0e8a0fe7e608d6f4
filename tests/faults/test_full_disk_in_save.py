"""A policy on a disk that is full: one line, and nothing half-written; safetensors writes with errors of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import GraftError
from tasks.model.policy import save_policy
from tests.support.small_disk import Ballast, mounted


@pytest.mark.parametrize("leave", [0, 4, 12])
def test_a_policy_is_saved_whole_or_not_at_all(tmp_path: Path, make_policy: Callable[..., Any], leave: int) -> None:
    policy = make_policy()
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=8m", "tmpfs") as disk:
        ballast, folder = Ballast(disk), disk / "policy"
        ballast.fill(leave=leave << 10)
        with pytest.raises(GraftError, match=r"/disk/policy: the disk is full; free some space and run again"):
            save_policy(policy, folder, parent=None, round=0)
        assert [path.name for path in disk.iterdir()] == ["ballast"]
        ballast.drop()
        save_policy(policy, folder, parent=None, round=0)
        assert (folder / "lineage.json").is_file()
