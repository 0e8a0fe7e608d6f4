"""The benchmark of the evaluators: its last line is the share of right cases, and a wrong one is named."""

import json

import pytest

from benchmarks.evaluators import report, score_cases


@pytest.mark.parametrize(("wanted", "share"), [(0.0, 1.0), (1.0, 2 / 3)])
def test_the_share_is_the_last_line_and_a_wrong_case_is_named(
    wanted: float, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    report(score_cases([("number", 5, 5, 1.0), ("text", "Rome", "Paris", wanted), ("choice", "B", "B", 1.0)]))
    *lines, last = capsys.readouterr().out.splitlines()
    assert json.loads(last) == {"evaluator_cases": 3, "evaluator_cases_right_share": pytest.approx(share)}
    assert ("wrong: text: 'Rome' for 'Paris': 0, not 1" in lines) == (share < 1)
    assert len(lines) == 4 + (share < 1)
