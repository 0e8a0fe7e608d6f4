"""Rewards, advantages, returns, losses and their gradients are those of TRL 0.11.4.

What it gave is in `trl_0_11_4.json`; the slow test installs it and asks it again, for more cases:

    GRAFT_RECORD=1 pytest tests/unit/ppo/test_trl_ppo_oracle.py     writes the file again from such an installation
"""

import json
import os
from pathlib import Path

import pytest
import torch

from tests.support.trl_oracle import install_trl, max_error, random_case, trl_numbers

RECORD = Path(__file__).parent / "trl_0_11_4.json"
ABOUT = 1e-6
RECORDED = json.loads(RECORD.read_text())


@pytest.mark.parametrize("place", range(len(RECORDED["cases"])))
def test_the_numbers_are_those_that_trl_gave(place: int) -> None:
    assert max_error(RECORDED["cases"][place], RECORDED["numbers"][place]) <= ABOUT


def test_the_recorded_cases_have_clips_and_rows_of_unlike_lengths() -> None:
    """There is something to compare."""
    assert sum(own["policy_clip"] > 0 for own in RECORDED["numbers"]) >= 4
    assert {case["settings"]["beta"] > 0 for case in RECORDED["cases"]} == {False, True}
    assert all(len({sum(row) for row in case["inputs"]["mask"]}) > 1 for case in RECORDED["cases"])


@pytest.mark.slow
def test_trl_gives_what_is_recorded_and_the_same_for_more_cases(tmp_path: Path) -> None:
    if failure := install_trl(tmp_path):
        pytest.skip(f"trl 0.11.4 cannot be installed here: {failure}")
    if os.environ.get("GRAFT_RECORD"):
        cases = [random_case(seed) for seed in range(6)]
        RECORD.write_text(json.dumps({"cases": cases, "numbers": trl_numbers(tmp_path, cases)}) + "\n")
        return
    cases = [*RECORDED["cases"], *(random_case(seed) for seed in range(100, 140))]
    numbers = trl_numbers(tmp_path, cases)
    for then, now in zip(RECORDED["numbers"], numbers, strict=False):
        for name, own in then.items():
            torch.testing.assert_close(torch.tensor(now[name]), torch.tensor(own))
    for case, theirs in zip(cases, numbers, strict=True):
        assert max_error(case, theirs) <= ABOUT, case["settings"]
