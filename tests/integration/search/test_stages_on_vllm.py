"""The stages of a round and an evaluation with a server that each starts: their files are those of Graft's sampler."""

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.stages.run import run
from tasks.artifacts import read_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.layout import Layout
from tasks.model.sampling.vllm.server import KEY
from tasks.params.file import override
from tasks.records import Attempt, Workflow
from tests.support import real_project

pytestmark = pytest.mark.slow

STAGES = ["search@1", "collect@1", "reward@1", "select@1", "update@1"]
COMMAND = [sys.executable, "-m", "tests.support.vllm_server"]
ON_VLLM = ["vllm=float32", f"machine.vllm.command={COMMAND}"]


def computed(root: Path, *assignments: str) -> tuple[list[Any], list[Any], dict[str, float]]:
    """What the stages write: workflows and attempts without log-probabilities, the metrics of select."""
    layout = Layout(real_project.make(root))
    override(root / "params.yaml", ["evaluation.samples=4", "evaluation.ks=[1]", *assignments])
    for stage_id in [*STAGES, "evaluate@before"]:
        run(root, stage_id)
    workflows = read_jsonl(layout.workflows(1) / "index.jsonl", Workflow)
    found = [(w.problem_id, w.code, w.visits, [c.tokens for c in w.completions]) for w in workflows]
    attempts = read_jsonl(layout.evaluation("before") / "attempts.jsonl", Attempt)
    return found, attempts, read_metrics(layout, "select@1")


def test_a_round_on_a_server_is_a_round_of_graft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(real_project.REPOSITORY))  # of the server: the stage's own is not handed on
    monkeypatch.setenv(KEY, "")  # so that the server has a random one, as it has with no variable
    own, own_attempts, numbers = computed(tmp_path / "own")
    assert not [name for name in numbers if name.startswith("sampler/vllm")]
    assert numbers["sampler/gap_max"] < 1e-4
    assert not (tmp_path / "own" / ".graft" / "engine").exists()
    found, attempts, numbers = computed(tmp_path / "vllm", *ON_VLLM)
    assert found == own
    assert attempts == own_attempts
    assert numbers["sampler/vllm-0.32.0-float32"] == 1
    assert numbers["sampler/gap_max"] < 1e-4
    logs = {path.name for path in (tmp_path / "vllm" / ".graft" / "engine").iterdir()}
    assert logs == {"search@1.log", "evaluate@before.log"}
    left = [p.cmdline() for p in psutil.Process().children(recursive=True)]
    assert not [line for line in left if "tests.support.vllm_server" in line]
