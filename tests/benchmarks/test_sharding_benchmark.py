"""The sharding benchmark runs, and its figures are those of the laws."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly


def test_the_smallest_models_meet_the_laws() -> None:
    command = [sys.executable, "-m", "benchmarks.sharding", "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    figures = json.loads(done.stdout.splitlines()[-1])
    assert max(figures[name] for name in ("gradient_error", "logprob_error", "influence_error")) < 1e-5
    assert figures["certificate_slope"] == pytest.approx(-1, abs=0.01)
    assert figures["checkpointing_equal"] == 1
