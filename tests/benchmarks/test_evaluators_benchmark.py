"""The benchmark of the evaluators: its last line is the share of right cases, and a wrong one is named."""

import pytest

from benchmarks.evaluators import case_figures, mutant_figures, report, score_cases
from benchmarks.support.human_eval import Program, canonical, differences, mutated, verdicts
from benchmarks.support.mutants import mutants_of
from tasks.programs.sandbox.sandbox import Sandbox


@pytest.mark.parametrize(("wanted", "share"), [(0.0, 1.0), (1.0, 2 / 3)])
def test_the_share_is_a_figure_and_a_wrong_case_is_named(
    wanted: float, share: float, capsys: pytest.CaptureFixture[str]
) -> None:
    results = score_cases([("number", 5, 5, 1.0), ("text", "Rome", "Paris", wanted), ("choice", "B", "B", 1.0)])
    assert case_figures(results) == {"evaluator_cases": 3, "evaluator_cases_right_share": pytest.approx(share)}
    report(results)
    lines = capsys.readouterr().out.splitlines()
    assert ("wrong: text: 'Rome' for 'Paris': 0, not 1" in lines) == (share < 1)
    assert len(lines) == 4 + (share < 1)


ROW = {
    "task_id": "Test/0",
    "prompt": 'def clip(x: int) -> int:\n    """ x, at most 9 """\n',
    "entry_point": "clip",
    "canonical_solution": "    return x if x < 9 else 8 + 1\n",
    "test": "def check(candidate):\n    assert candidate(3) == 3\n    assert candidate(30) == 9\n",
}


def test_a_solution_passes_and_its_mutants_fail() -> None:
    labels = [label for label, _ in mutants_of(ROW["prompt"] + ROW["canonical_solution"], "clip")]
    assert labels == ["early return in line 1", "comparison in line 3", "operator in line 3", "constant in line 3"]
    with Sandbox(1.0, 256, allow_weak=False, workers=1) as sandbox:
        assert verdicts(sandbox, canonical([ROW])) == [True]
        survivors = [
            p.label for p, passes in zip(mutated([ROW]), verdicts(sandbox, mutated([ROW])), strict=True) if passes
        ]
    assert survivors == ["constant in line 3"]  # x < 10: the same function


def test_a_mutant_that_passes_is_equivalent_or_is_shown_with_an_input(capsys: pytest.CaptureFixture[str]) -> None:
    mutants = mutated([ROW])
    weak = [
        mutant._replace(row=ROW | {"test": ROW["test"].replace("candidate(30) == 9", "candidate(4)")})
        for mutant in mutants
    ]
    assert differences(mutants[3:]) == [None]
    early, compared, added, _ = differences(weak)
    assert early == "clip(3) is 3; the mutant gives None"
    assert compared is not None
    assert added is None  # between 3 and 4 nothing is added
    figures = mutant_figures(weak, [False, True, True, False])
    assert figures == {
        "humaneval_mutants": 4,
        "humaneval_mutants_killed": 2,
        "humaneval_mutants_equivalent": 1,
        "humaneval_mutants_not_seen": 1,
        "humaneval_mutants_killed_share": 2 / 3,
    }
    out = capsys.readouterr().out
    assert "passes: Test/0 clip, operator in line 3: equivalent, as far as tried\n" in out
    assert "passes: Test/0 clip, comparison in line 3: not seen by the tests: clip(" in out


def test_a_mutant_that_never_ends_differs() -> None:
    looping = Program(ROW, "loop", ROW["prompt"] + "    while x == 3: pass\n    return min(x, 9)\n")
    assert differences([looping]) == ["clip(3) is 3; the mutant gives 'no end'"]
