"""The environments, and one that a user wrote."""

import re
from pathlib import Path

import pytest

from tasks.environments.direct import Direct
from tasks.environments.lookup import environment_of
from tasks.environments.protocol import Environment, with_checked_siblings
from tasks.environments.runner import make_runner
from tasks.environments.tagged_answer import MALFORMED_VARIANTS, TaggedAnswer
from tasks.environments.tags import hard_format, mark
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.sandbox import Program
from tasks.records.problems import Problem, Sibling
from tasks.records.programs import Result
from tests.support.records import question_of

SANDBOX = load_params(Path(__file__).parents[3] / "params.yaml").sandbox.model_copy(update={"allow_weak": True})
CODE = HEADER + "    a = n[0] * n[1]\n    b = a + 5\n    return b\n"
QUESTION = "12 boxes of 4 pens, and 5 more?"
PROBLEM = Problem(
    problem_id="p", question=QUESTION, answer=53, source="test",
    siblings=[Sibling(question="3 boxes of 9 pens, and 5 more?", answer=32)],
)  # fmt: skip
DEMONSTRATION = "<think>\n12 * 4 = 48\n48 + 5 = 53\n</think>\n<answer>\n53\n</answer>"


def results(environment: Environment, *texts: str) -> list[Result]:
    """The result of each text on QUESTION."""
    with make_runner(environment, SANDBOX, None) as runner:
        return [first for first, *_ in runner.run([Program(text, (QUESTION,)) for text in texts])]


def test_programs_and_answers_are_checked_and_only_programs_on_the_siblings() -> None:
    for environment, text in ((WorkflowEnvironment(), CODE), (TaggedAnswer(), DEMONSTRATION)):
        (result,) = results(environment, environment.text(text))
        assert environment.is_right(PROBLEM, result)
        assert not environment.is_right(question_of(QUESTION, 54), result)
    assert with_checked_siblings(WorkflowEnvironment(), PROBLEM) == PROBLEM
    assert with_checked_siblings(TaggedAnswer(), PROBLEM).questions == (QUESTION,)


@pytest.mark.parametrize(("text", "value"), [
    (DEMONSTRATION, 53), ("<answer>53</answer>", 53), ("<answer> $1,250.50 </answer>", 1250.5),
    ("<answer>\\boxed{3/4}</answer>", 0.75), ("<answer>20%</answer>", "20%"), ("<think>53</think>", None), ("53", None),
    ("<answer>no idea</answer>", None), ("", None),
])  # fmt: skip
def test_the_answer_is_read_from_its_block_only(text: str, value: float | str | None) -> None:
    (result,) = results(TaggedAnswer(), text)
    assert (result.status, result.value) == (("ok", value) if value is not None else ("error", None))


def test_a_demonstration_earns_full_terms_and_a_malformed_one_less() -> None:
    environment = environment_of("answer", strict=True, malformed_share=0)
    solved = [(question_of(f"{QUESTION} {n}", 53), CODE) for n in range(40)]
    (correct,) = {text for _, text in environment.demonstrations(solved, 0)}
    assert correct == DEMONSTRATION
    earned = {name: term(PROBLEM, correct, []) for name, term in environment.terms.items()}
    assert earned == {"hard_format": 0.5, "mark": 0.5, "steps": 1}
    malformed = {malform(correct) for malform in MALFORMED_VARIANTS}
    assert all(hard_format(text) + mark(text) < 1 for text in malformed)
    all_malformed = environment_of("answer", malformed_share=1)
    assert {text for _, text in all_malformed.demonstrations(solved, 0)} == malformed


class NoParser(Direct):
    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        return question


class BrokenParser(NoParser):
    """Its parser raises on some texts, its check on every one."""

    def parse(self, text: str) -> int:
        return int(text)

    def check(self, value: float | str, answer: float) -> bool:
        raise ZeroDivisionError(f"{value} / {answer}")


def test_an_error_of_an_environment_is_a_failure_of_one_line_and_no_wrong_answer() -> None:
    good, bad = results(BrokenParser(), "53", "fifty-three")
    assert (good.status, good.value) == ("ok", 53)
    assert bad.status == "failed"
    assert bad.error == "parse: ValueError: invalid literal for int() with base 10: 'fifty-three'"
    check = r"^environment: BrokenParser\.check\(53, 0\) raised ZeroDivisionError: 53 / 0; fix"
    with pytest.raises(GraftError, match=check):
        BrokenParser().is_right(question_of(QUESTION, 0), good)
    with pytest.raises(GraftError, match=r"^environment: .*:NoParser: .*abstract.* '?parse\b"):
        environment_of(f"{__name__}:NoParser")


@pytest.mark.parametrize(("name", "why"), [
    ("nowhere:Parity", "No module named 'nowhere'"),
    ("poems", "'poems' is none of workflow, answer; write one of these, or module:CLASS for another"),
    ("workfow", "did you mean 'workflow'?"), ("code", "did you mean 'recipes.code:Code'?"),
    ("tasks.environments.direct:Oddity", "has no attribute 'Oddity'"),
    ("tasks.environments.tags:hard_format", "missing 1 required positional argument"),
    ("tasks.records.record:Record", "has no asks_siblings; let it inherit tasks.environments.direct.Direct"),
])  # fmt: skip
def test_anything_but_an_environment_is_refused_in_one_line(name: str, why: str) -> None:
    with pytest.raises(GraftError, match=f"environment: .*{re.escape(why)}") as error:
        environment_of(name)
    assert "\n" not in str(error.value)
