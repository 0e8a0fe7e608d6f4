"""Law: the memory of stages that stream does not grow with the problems."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.stage_params import REPOSITORY
from tests.support.streamed_round import write_search

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc"),
]

LIMIT = 500  # MiB
ROOM = 20  # MiB by which two peaks may differ: what the allocator keeps


def test_four_times_the_problems_need_no_more_memory(tmp_path: Path) -> None:
    peaks: dict[str, list[float]] = {"collect": [], "reward": []}
    for count in (4_000, 16_000):  # two shards and eight
        write_search(tmp_path / str(count), count)
        for stage, of in peaks.items():
            command = [sys.executable, "-m", "tests.support.streamed_round", stage, str(tmp_path / str(count))]
            ended = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
            of.append(float(ended.stdout.splitlines()[-1]))
    for stage, (few, many) in peaks.items():
        assert many < min(LIMIT, few + ROOM), (stage, few, many)
