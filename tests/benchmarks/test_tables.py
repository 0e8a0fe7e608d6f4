"""Benchmarks that keep results: their tables and figures, without any run, from the results of this repository."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.stage_params import REPOSITORY

pytestmark = pytest.mark.slow


def run(name: str, *arguments: str) -> tuple[str, dict[str, Any]]:
    """What a benchmark prints, and the figures in its last line."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    printed = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout
    return printed, json.loads(printed.splitlines()[-1])


def test_the_gap_of_the_audit_is_the_largest_of_a_condition_and_what_lacks_results_is_named() -> None:
    printed, figures = run("selection", "--processes", "0")
    conditions = ("flipped", "biased", "answer_only")
    assert figures["gap_to_best"] == max(figures[f"{condition}_gap"] for condition in conditions)
    assert figures["flipped_gain"] > 0.1  # of exact rewards there is nothing to gain
    for name, value in figures.items():
        assert (value is None) == (f"{name}: no " in printed), name


def test_each_claim_has_a_verdict_in_each_task() -> None:
    printed, figures = run("claims", "--processes", "0")
    assert figures["claims"] == 30  # ten in three tasks
    assert figures["settled_repeated"] <= figures["claims_repeated"] == printed.count(" yes ")
