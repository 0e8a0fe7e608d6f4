"""Laws of terms of the user's own: each call in a process that can be ended, and no call spoils another's."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tasks.errors import GraftError
from tasks.params.sections import UserTerm
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.reward import user_terms
from tasks.reward.user_terms import TermProcess, user_term_column
from tasks.reward.weighted_sum import TermColumn, TermValue
from tasks.trajectories import RewardedTrajectory, Trajectory
from tests.support.groups import with_fields
from tests.support.processes import has_ended

PROBLEM = Problem(problem_id="p", question="2 and 3?", answer=5, source="test")
LONG = 60.0  # seconds: no call here takes that long

TERMS = """
import ctypes, fractions, math, os, signal, subprocess, sys, threading, time
from pathlib import Path
import numpy
calls = 0

def by_text(problem, text, results):
    global calls
    calls += 1
    return eval(text)

def hangs():
    time.sleep(3600)

def crashes():
    os.kill(os.getpid(), signal.SIGSEGV)

def raises():
    raise ValueError("not\\nthis one")

def starts(path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    Path(path).write_text(str(child.pid))
    time.sleep(3600)

def dies_later():
    threading.Timer(0.05, os._exit, [3]).start()
    return 1
"""


LINE = TERMS[: TERMS.index("raise ValueError")].count("\n") + 1


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "terms.py").write_text(TERMS)
    return tmp_path


def called(root: Path, text: str, seconds: float = LONG) -> TermValue:
    with TermProcess(root, "terms:by_text", seconds) as call:
        return call(PROBLEM, text, [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("None", "TypeError: it returned None, a NoneType, which is no number"),
        ("10**400", f"ValueError: it returned 1{'0' * 39}…, not a number from -1e+09 to 1e+09"),
        ("raises()", f"ValueError: not this one (terms.py:{LINE})"),
        ("os._exit(7)", "its process ended with exit code 7"),
        ("crashes()", "its process was ended by SIGSEGV"),
    ],
)
def test_anything_else_fails_with_its_cause_and_the_next_call_succeeds(root: Path, text: str, why: str) -> None:
    with TermProcess(root, "terms:by_text", LONG) as call:
        for _ in range(2):
            assert call(PROBLEM, text, []) == TermValue(None, "failed", why)
            assert call(PROBLEM, "0.5", []) == TermValue(0.5)


@pytest.mark.parametrize("text", ["hangs()", "ctypes.PyDLL(None).sleep(3600)"], ids=["python", "holding the GIL"])
def test_a_call_that_takes_too_long_is_ended(root: Path, text: str) -> None:
    assert called(root, text, 0.5) == TermValue(None, "timeout", "no answer within 0.5 s")
    assert called(root, "calls") == TermValue(1.0)


def test_processes_that_a_call_started_end_with_it(root: Path) -> None:
    assert called(root, f"starts({str(root / 'pid')!r})", 1.0).status == "timeout"
    assert has_ended(int((root / "pid").read_text()))


def test_a_module_is_loaded_once_and_again_after_its_process_has_died(root: Path) -> None:
    with TermProcess(root, "terms:by_text", LONG) as call:
        assert [call(PROBLEM, "calls", []).value for _ in range(3)] == [1, 2, 3]
        assert call(PROBLEM, "dies_later()", []) == TermValue(1.0)
        os.waitid(os.P_PID, call._process.pid, os.WEXITED | os.WNOWAIT)
        assert call(PROBLEM, "calls", []) == TermValue(1.0)  # the first call of a fresh one


def test_loading_does_not_count_as_a_call(root: Path) -> None:
    """A module may load a model."""
    (root / "slow.py").write_text("import time\ntime.sleep(1.2)\ndef f(p, t, r):\n    return eval(t)\n")
    with TermProcess(root, "slow:f", 0.8) as call:
        assert call(PROBLEM, "time.sleep(60)", []).status == "timeout"
        assert call(PROBLEM, "1", []) == TermValue(1.0)  # loaded again in between


def test_a_term_receives_the_problem_the_text_and_the_results(root: Path) -> None:
    results = [Result(status="ok", value=1e308), Result(status="error", error="a\nb")]
    same = f"problem.model_dump() == {PROBLEM.model_dump()!r} and type(problem).__name__ == 'Problem'"
    given = "results[0].value > 1e300 and results[1].error == 'a\\nb' and len(results)"
    (root / "given.py").write_text("def f(problem, text, results):\n    return eval(text)\n")
    with TermProcess(root, "given:f", LONG) as call:
        assert [call(PROBLEM, text, results).value for text in (same, given, "len('𝟙é\\udc80')")] == [1, 2, 3]


def test_a_term_prints_to_stderr_and_its_stdin_is_empty(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert called(root, "print('seen', flush=True) or 1 + len(sys.stdin.read())").value == 1
    assert capfd.readouterr() == ("", "seen\n")


def test_sets_have_the_same_order_in_each_process(root: Path) -> None:
    assert len({called(root, "float(''.join({'1', '2', '3', '4', '5', '6', '7'}))").value for _ in range(2)}) == 1


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import nothing_such\n", r"ModuleNotFoundError: No module named 'nothing_such' \(broken\.py:1\)"),
        ("def f(\n", r"SyntaxError: '\(' was never closed \(broken\.py, line 1\)"),
        ("def g(p, t, r): ...\n", r"AttributeError: module 'broken' has no attribute 'f'"),
        ("def f(text): ...\n", r"TypeError: broken:f must take three arguments, problem, text and results"),
        ("import os\nos._exit(4)\n", "its process ended with exit code 4"),
    ],
)
def test_a_load_error_is_reported_in_one_line_before_any_call(tmp_path: Path, source: str, why: str) -> None:
    (tmp_path / "broken.py").write_text(source)
    message = rf"^rewards\.own: broken:f could not be loaded: {why}.*; fix it, or"
    with pytest.raises(GraftError, match=message) as error, TermProcess(tmp_path, "broken:f", LONG):
        pass
    assert "\n" not in str(error.value)


def test_no_process_is_left_after_its_parent_was_killed(root: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from tasks.records.problems import Problem\nfrom tasks.reward.user_terms import TermProcess\n"
        "with TermProcess(Path(sys.argv[1]), 'terms:by_text', 3600) as call:\n"
        "    print(call._process.pid, flush=True)\n"
        "    call(Problem(problem_id='p', question='?', answer=1, source='test'), 'hangs()', [])\n"
    )
    command = [sys.executable, "-c", code, str(root)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        pid = int(caller.stdout.readline())
        assert psutil.pid_exists(pid)
        caller.kill()
    assert has_ended(pid)


# --- columns


Make = Callable[..., RewardedTrajectory]


def group(make: Make, problem_id: str, *texts: str) -> Trajectory:
    return with_fields(make(problem_id, [0.0] * len(texts)).trajectory, code=texts)


def column(root: Path, groups: list[Trajectory], limit: float, seconds: float = LONG) -> list[TermColumn]:
    term, total = UserTerm(name="told", term="terms:by_text", weight=1.0), sum(len(g.members) for g in groups)
    return user_term_column(root, term, groups, total, limit, seconds)


def test_values_have_the_places_of_their_completions(root: Path, make_trajectory: Make) -> None:
    first = group(make_trajectory, "a", "1", "raises()", "2", "os._exit(7)")
    second = group(make_trajectory, "b", "hangs()", "3", "float(problem.problem_id == 'b')")
    found = [[(each.value, each.status) for each in of_one] for of_one in column(root, [first, second], 0.5, 1.0)]
    assert found[0] == [(1, "ok"), (None, "failed"), (2, "ok"), (None, "failed")]
    assert found[1] == [(None, "timeout"), (3, "ok"), (1, "ok")]


def test_identical_completions_are_measured_once(root: Path, make_trajectory: Make) -> None:
    twice = group(make_trajectory, "a", "calls", "calls", "calls + 0", "calls")
    again = group(make_trajectory, "b", "calls")
    found = column(root, [twice, again], 0.0)
    assert [[each.value for each in of_one] for of_one in found] == [[1, 1, 2, 1], [3]]
    other = with_fields(twice, result=[*[twice.members[0].result] * 3, Result(status="timeout")])
    assert [each.value for each in column(root, [other], 0.0)[0]] == [1, 1, 2, 3]


def test_no_further_call_is_made_once_too_many_have_failed(root: Path, make_trajectory: Make) -> None:
    note = root / "called"
    texts = ["1", "raises()", "raises() + 0", f"Path({str(note)!r}).touch() or 1"]
    with pytest.raises(GraftError) as error:
        column(root, [group(make_trajectory, "a", *texts)], 0.25)
    assert str(error.value) == (
        "rewards.own: told (terms:by_text) has failed on 2 of 4 completions, more than 25%; workflow a-2 "
        f"of problem a, for instance: ValueError: not this one (terms.py:{LINE}); fix it"
    )
    assert not note.exists()
    column(root, [group(make_trajectory, "a", *texts)], 0.5)
    assert note.exists()


TRIED = 4
NO_VALUES = {"None": "it returned None", "os._exit(0)": "its process ended with exit code 0"}


@pytest.mark.parametrize("value", NO_VALUES)
def test_a_function_that_never_has_a_value_is_refused_at_its_first_calls(
    root: Path, make_trajectory: Make, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Whatever share of them may fail."""
    monkeypatch.setattr(user_terms, "TRIED", TRIED)
    calls = root / "calls"
    texts = [f"[Path({str(calls)!r}).open('a').write('x'), {value}][{1}]"] * TRIED
    several = [group(make_trajectory, name, *[text + " " * n for n, text in enumerate(texts)]) for name in "abc"]
    message = r"^rewards\.own: told \(terms:by_text\) has failed on 4 of 12 completions, all that it was called for"
    with pytest.raises(GraftError, match=rf"{message}; workflow a-3 of problem a, for instance: .*{NO_VALUES[value]}"):
        column(root, several, 1.0)
    assert len(calls.read_text()) == TRIED
