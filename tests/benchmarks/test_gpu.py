"""The benchmark of one card: on a CPU its phases run, and what it divides is right."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.stage_params import REPOSITORY

pytestmark = pytest.mark.slow

PHASES = (
    *("env", "decode/0.5b", "step/0.5b", "trl/0.5b/plain", "laws", "influence/0.5b", "profile/0.5b", "chain/default"),
    "step/0.5b/update.checkpointing=true/update.micro_batch_tokens=9216",
)
"""All but continuous batching, which takes half a minute on a CPU."""


def start(out: Path, *phases: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.gpu", "--tiny", "--seconds", "300", "--out", str(out), *phases]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def test_all_phases_run_on_a_cpu(tmp_path: Path) -> None:
    process = start(tmp_path, *PHASES)
    made: dict[str, Any] = json.loads(process.communicate()[0].splitlines()[-1])
    assert made["phases"].keys() == {*PHASES}
    faults = [
        (p, n) for p, of in made["phases"].items() for n in of if n.endswith("_error") or n in ("code", "skipped")
    ]
    assert faults == []
    assert made["laws_held"] == made["laws"] == 15
    assert min(made["decode_bandwidth_share"], made["update_peak_share"]) > 0
    seconds = [made["phases"][phase]["step_s"] for phase in ("trl/0.5b/plain", "step/0.5b")]
    assert made["step_speedup"] == pytest.approx(seconds[0] / seconds[1], abs=1e-3)
    assert made["step_speedup_continuous"] is None
    lines = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    assert {line["phase"] for line in lines} == {*PHASES}
    assert "Self CPU" in (tmp_path / "profile_update.txt").read_text()


def test_a_benchmark_that_is_ended_says_what_it_has(tmp_path: Path) -> None:
    process = start(tmp_path, "env", "laws")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("laws"):
            break
    process.send_signal(signal.SIGTERM)
    made = json.loads(process.communicate()[0].splitlines()[-1])
    assert made["phases"]["env"]["copy_tb_s"] > 0
    assert 1 <= made["laws"] < 15
