"""The environment `code`: hidden tests decide rewards; search and prompts have the shown ones alone."""

from collections.abc import Iterator

import pytest

from tasks.environments.lookup import environment_of
from tasks.environments.protocol import Environment, search_share, solved_share
from tasks.environments.runner import Runner, make_runner
from tasks.environments.unit_tested_code import UnitTestedCode
from tasks.errors import GraftError
from tasks.evaluators.unit_tests import parse, unit_tests_of
from tasks.params.sections import SandboxParams
from tasks.programs.sandbox.sandbox import Program
from tasks.records import UNIT_TESTS, CodeVerdict, Problem, Result

SANDBOX = SandboxParams(seconds=1.0, memory_mb=256, allow_weak=False)
ANSWER = parse(
    {"entry_point": "f", "shown": ["assert f(1) == 2"], "hidden": [f"assert f({x}) == {2 * x}" for x in (3, 4, 5, 6)]}
)
PROBLEM = Problem(
    problem_id="p", evaluator=UNIT_TESTS, question="f(x): x twice\nassert f(1) == 2", answer=ANSWER, source="test"
)


def _verdict(hidden_passed: int, hidden: int, shown_passed: int, shown: int, ending: str = "") -> CodeVerdict:
    return CodeVerdict(
        hidden_passed=hidden_passed, hidden=hidden, shown_passed=shown_passed, shown=shown, ending=ending
    )


VERDICTS = {
    "def f(x): return 2 * x": (_verdict(4, 4, 1, 1), 1.0, 1.0, 1.0),
    "Here:\n```python\ndef f(x):\n    return x + x\n```\nDone.": (_verdict(4, 4, 1, 1), 1.0, 1.0, 1.0),
    "def f(x): return 2 if x == 1 else 0": (_verdict(0, 4, 1, 1), 0.0, 0.0, 1.0),
    "def f(x): return 2 * x if 1 < x < 5 else 0": (_verdict(2, 4, 0, 1), 0.0, 0.5, 0.0),
    "def f(x):\n    while x > 4: pass\n    return 2 * x": (_verdict(2, 4, 1, 1, "out of time"), 0.0, 0.5, 1.0),
    "x = 1": (_verdict(0, 4, 0, 1), 0.0, 0.0, 0.0),
    "4/4 hidden, 1/1 shown": (_verdict(0, 4, 0, 1), 0.0, 0.0, 0.0),
}
"""Completion → verdict, score, score with partial credit, share that search sees."""


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with make_runner(UnitTestedCode(), SANDBOX, None) as made:
        yield made


def _run(runner: Runner, environment: Environment, *completions: str) -> list[Result]:
    codes = [environment.text(completion) for completion in completions]
    programs = [Program(code, PROBLEM.questions, PROBLEM.evaluator, unit_tests_of(PROBLEM)) for code in codes]
    return [result for (result,) in runner.run(programs)]


def test_verdicts_scores_and_what_search_sees(runner: Runner) -> None:
    environment, partial = environment_of("code"), environment_of("code", partial_tests=True)
    for result, expected in zip(_run(runner, environment, *VERDICTS), VERDICTS.values(), strict=True):
        verdict, score, share, shown = expected
        assert result == Result(status="ok", value=verdict)
        assert solved_share(environment, PROBLEM, [result]) == score
        assert solved_share(partial, PROBLEM, [result]) == share
        assert search_share(environment, PROBLEM, [result]) == shown
        assert environment.is_right(PROBLEM, result) == partial.is_right(PROBLEM, result) == (score == 1)
        assert Result.model_validate_json(result.model_dump_json()) == result


def test_solutions_are_those_that_problems_bring_and_that_pass_the_shown_tests() -> None:
    right, wrong = "def f(x): return 2 * x\n", "def f(x): return 3 * x\n"
    problems = [
        PROBLEM.model_copy(update={"problem_id": name, "answer": {**ANSWER, "solution": solution}})
        for name, solution in (("right", right), ("wrong", wrong), ("none", ""))
    ]
    found = environment_of("code").solutions(problems, SANDBOX)
    assert {name: workflow and workflow.code for name, workflow in found.items()} == {"right": right, "wrong": None}
    assert found["right"].result.value == _verdict(0, 0, 1, 1)
    assert environment_of("workflow").solutions(problems, SANDBOX) == {}


def test_an_old_verdict_as_text_is_refused_in_one_line() -> None:
    old = Result(status="ok", value="4/4 hidden, 1/1 shown")
    for environment in (UnitTestedCode(), environment_of("workflow")):
        with pytest.raises(
            GraftError, match=r"'4/4 hidden, 1/1 shown' is no verdict; .* graft stage search@1 collect@1"
        ):
            environment.score(PROBLEM, old)


def test_a_blank_completion_and_a_number_have_no_verdict(runner: Runner) -> None:
    assert _run(runner, UnitTestedCode(), " \n")[0].status == "error"
    workflow = environment_of("workflow")
    with make_runner(workflow, SANDBOX, None) as own:
        programs = [
            Program(f"def solve(problem): return {value}", PROBLEM.questions, UNIT_TESTS, unit_tests_of(PROBLEM))
            for value in ("3", "'def f(x): return 2 * x'")
        ]
        (number,), (code,) = own.run(programs)
    assert (number.status, code.value) == ("error", _verdict(4, 4, 1, 1))
    assert workflow.is_right(PROBLEM, code)


def test_the_prompt_has_the_shown_tests_alone() -> None:
    for base in ("scratch", "a base"):
        prompt = UnitTestedCode().prompt_for(PROBLEM, base)
        assert "assert f(1) == 2" in prompt
        assert "f(3)" not in prompt


COMPOSED = """
def solve(problem):
    drafts = ["def f(x): return x", "def f(x): return 2 * x", "def f(x) return"]
    return max(drafts, key=lambda code: test(code, problem))
"""


def test_a_workflow_composes_code_by_the_shown_tests() -> None:
    workflow = environment_of("workflow")
    shares = "def solve(problem): return [test(c, problem) for c in ('def f(x): return 2 * x', 'f = 1 / 0', '')]"
    with make_runner(workflow, SANDBOX, None) as own:
        programs = [
            Program(COMPOSED, PROBLEM.questions, UNIT_TESTS, unit_tests_of(PROBLEM)),
            Program(shares.replace("return [", "return str([") + ")", PROBLEM.questions),
            Program("def solve(problem): return test('', 'no tests')", PROBLEM.questions),
        ]
        (composed,), (listed,), (none,) = own.run(programs)
    assert composed.value == _verdict(4, 4, 1, 1)
    assert listed.value == "[1.0, 0.0, 0.0]"
    assert none.error == "ValueError: test() needs a text that shows tests: assert f(2) == 4"
    prompt = workflow.prompt_for(PROBLEM, "a base", served=True)
    assert "- test(code, shown): " in prompt
    assert "returns its answer as the code of a Python function" in prompt
    number = Problem(problem_id="n", question="2 and 3?", answer=5, source="test")
    assert "- test(" not in workflow.prompt_for(number, "a base", served=True)
