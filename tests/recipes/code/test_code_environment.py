"""The environments of code: hidden tests decide rewards; search and prompts have the shown ones alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from recipes.code.environment import Code
from recipes.code.evaluator import UNIT_TESTS, parse
from recipes.code.workflow import CodeWorkflow
from tasks.environments.lookup import environment_of
from tasks.environments.protocol import Environment, solved_share
from tasks.environments.runner import Runner, make_runner, program_of
from tasks.errors import GraftError
from tasks.params.sections import SandboxParams
from tasks.programs.sandbox.sandbox import Program
from tasks.records.problems import Problem
from tasks.records.programs import CheckVerdict, Result
from tasks.sources.user_modules import sources_of
from tests.support.completions import CODE, COMPLETIONS, NAME
from tests.support.stage_params import REPOSITORY

SANDBOX = SandboxParams(seconds=1.0, memory_mb=256, allow_weak=False)
ANSWER = parse(
    {"entry_point": "f", "shown": ["assert f(1) == 2"], "hidden": [f"assert f({x}) == {2 * x}" for x in (3, 4, 5, 6)]}
)
PROBLEM = Problem(
    problem_id="p", evaluator=UNIT_TESTS, question="f(x): x twice\nassert f(1) == 2", answer=ANSWER, source="test"
)


def _verdict(hidden_passed: int, hidden: int, shown_passed: int, shown: int, ending: str = "") -> CheckVerdict:
    return CheckVerdict(
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
    with make_runner(Code(), SANDBOX, None) as made:
        yield made


def _run(runner: Runner, environment: Environment, *completions: str) -> list[Result]:
    codes = [environment.text(completion) for completion in completions]
    programs = [program_of(code, PROBLEM) for code in codes]
    return [result for (result,) in runner.run(programs)]


def test_verdicts_scores_and_what_search_sees(runner: Runner) -> None:
    environment, partial = environment_of("recipes.code:Code"), environment_of("recipes.code:Code", partial_tests=True)
    for result, expected in zip(_run(runner, environment, *VERDICTS), VERDICTS.values(), strict=True):
        verdict, score, share, shown = expected
        assert result == Result(status="ok", value=verdict)
        assert solved_share(environment, PROBLEM, [result]) == score
        assert solved_share(partial, PROBLEM, [result]) == share
        assert environment.search_share(PROBLEM, [result]) == shown
        assert environment.is_right(PROBLEM, result) == partial.is_right(PROBLEM, result) == (score == 1)
        assert Result.model_validate_json(result.model_dump_json()) == result


def test_solutions_are_those_that_problems_bring_and_that_pass_the_shown_tests() -> None:
    right, wrong = "def f(x): return 2 * x\n", "def f(x): return 3 * x\n"
    problems = [
        PROBLEM.model_copy(update={"problem_id": name, "answer": {**ANSWER, "solution": solution}})
        for name, solution in (("right", right), ("wrong", wrong), ("none", ""))
    ]
    found = Code().solutions(problems, SANDBOX)
    assert {name: workflow and workflow.code for name, workflow in found.items()} == {"right": right, "wrong": None}
    assert found["right"].result.value == _verdict(0, 0, 1, 1)
    assert CodeWorkflow().solutions(problems, SANDBOX) == {}


def test_a_solution_without_shown_tests_is_taken_and_the_rest_of_a_function_is_an_example() -> None:
    rest = {**ANSWER, "prompt": "def f(x):\n", "shown": [], "solution": "    return 2 * x\n"}
    problem = PROBLEM.model_copy(update={"answer": rest})
    (workflow,) = Code().solutions([problem], SANDBOX).values()
    assert workflow is not None
    assert workflow.result.value == _verdict(0, 0, 0, 0)
    ((question, shown),) = Code().worked_examples([(problem, workflow.code)], 1, 0)
    assert (question, shown) == (problem.question, "```python\n    return 2 * x\n```")


def test_an_old_verdict_as_text_is_refused_in_one_line() -> None:
    old = Result(status="ok", value="4/4 hidden, 1/1 shown")
    for environment in (Code(), CodeWorkflow()):
        with pytest.raises(
            GraftError, match=r"'4/4 hidden, 1/1 shown' is no verdict; .* graft stage search@1 collect@1"
        ):
            environment.score(PROBLEM, old)


def test_what_runs_in_the_sandbox_is_a_source_of_the_environment() -> None:
    """Which the stages depend on, so that an edit of it makes them stale."""
    harness = set((REPOSITORY / "recipes/code/harness").glob("*.py"))
    assert len(harness) > 5
    assert harness <= {file for _, file in sources_of(REPOSITORY, ["recipes.code"])}


def test_a_blank_completion_and_a_number_have_no_verdict(runner: Runner) -> None:
    assert _run(runner, Code(), " \n")[0].status == "error"
    workflow = CodeWorkflow()
    with make_runner(workflow, SANDBOX, None) as own:
        programs = [
            program_of(f"def solve(problem): return {value}", PROBLEM) for value in ("3", "'def f(x): return 2 * x'")
        ]
        (number,), (code,) = own.run(programs)
    assert (number.status, code.value) == ("error", _verdict(4, 4, 1, 1))
    assert workflow.is_right(PROBLEM, code)


def test_the_prompt_has_the_shown_tests_alone() -> None:
    for base in ("scratch", "a base"):
        prompt = Code().prompt_for(PROBLEM, base)
        assert "assert f(1) == 2" in prompt
        assert "f(3)" not in prompt


COMPOSED = """
def solve(problem):
    drafts = ["def f(x): return x", "def f(x): return 2 * x", "def f(x) return"]
    return max(drafts, key=lambda code: test(code, problem))
"""


def test_a_workflow_composes_code_by_the_shown_tests() -> None:
    workflow = CodeWorkflow()
    shares = "def solve(problem): return [test(c, problem) for c in ('def f(x): return 2 * x', 'f = 1 / 0', '')]"
    with make_runner(workflow, SANDBOX, None) as own:
        programs = [
            program_of(COMPOSED, PROBLEM),
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


def test_what_is_taken_passes_the_tests(runner: Runner) -> None:
    """The problem names the function; the text of another problem is another program."""
    environment = Code()
    answer: Any = parse({"entry_point": NAME, "hidden": ["assert f(3) == 6", "assert f(0) == 0"]})
    problem = Problem(problem_id="p", evaluator=UNIT_TESTS, question="f(x): x twice", answer=answer, source="test")
    means = {name: each for name, each in COMPLETIONS.items() if each.code == CODE or "import" in name}
    codes = [environment.text_for(problem, text) for text, _ in means.values()]
    results = runner.run([program_of(code, problem) for code in codes])
    wrong = [name for name, (result,) in zip(means, results, strict=True) if not environment.is_right(problem, result)]
    assert wrong == ["cut in the function, behind imports"]
    other = problem.model_copy(update={"answer": {**answer, "entry_point": "g"}})
    assert environment.text_for(other, "```python\ng = abs\n```\n```python\nf = abs\n```") == "g = abs\n"
