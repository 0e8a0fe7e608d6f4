"""The benchmark of one card: on a CPU its phases run, and what it divides is right."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.__main__ import PHASES, summary
from benchmarks.gpu.policies import SMALL, base_of, policy_of
from benchmarks.gpu.step import group_flop
from benchmarks.support.workspace import PROJECT


def start(out: Path, *phases: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.gpu", "--tiny", "--seconds", "300", "--out", str(out), *phases]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def test_factors_are_those_of_whole_steps_and_absent_without_them() -> None:
    step = {"step_s": 4.0, "sample_gib": 3.0, "update_gib": 6.0}
    trl = {"step_s": 12.0, "gib": 24.0}
    laws = {"twice_held": True, "resume_held": False, "resume_codes": [0]}
    made = summary({"step/0.5b": step, "trl/0.5b/plain": trl, "laws": laws})
    assert (made["step_speedup"], made["memory_share"]) == (3.0, 0.25)
    assert (made["laws_held"], made["laws"]) == (1, 2)
    assert made["step_speedup_continuous"] is None


@pytest.mark.slow
def test_the_operations_of_an_update_are_those_that_torch_counts() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    shape, length = SMALL, 16
    model = base_of(shape, "float32").requires_grad_(False)
    inputs = model.get_input_embeddings()(torch.arange(shape.prompt + length)[None]).requires_grad_()
    with FlopCounterMode(display=False) as counter:
        model(inputs_embeds=inputs, logits_to_keep=length).logits.sum().backward()
    expected = group_flop(policy_of(shape, "float32"), replace(shape, completions=1), length)
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
def test_all_phases_run_on_a_cpu(tmp_path: Path) -> None:
    phases = [name for name in PHASES if not name.endswith("continuous")]  # which takes half a minute on a CPU
    process = start(tmp_path, *phases)
    made: dict[str, Any] = json.loads(process.communicate()[0].splitlines()[-1])
    assert made["phases"].keys() == {*phases}
    faults = [
        (p, n) for p, of in made["phases"].items() for n in of if n.endswith("_error") or n in ("code", "skipped")
    ]
    assert faults == []
    assert made["laws_held"] == made["laws"] == 15
    assert min(made["decode_bandwidth_share"], made["update_peak_share"], made["step_speedup"]) > 0
    lines = [json.loads(line) for line in (tmp_path / "figures.jsonl").read_text().splitlines()]
    assert {line["phase"] for line in lines} == {*phases}
    assert "Self CPU" in (tmp_path / "profile_update.txt").read_text()


@pytest.mark.slow
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
