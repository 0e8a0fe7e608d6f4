"""The environments, and one of the user's own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.environments.direct import Direct
from tasks.environments.lookup import environment_of
from tasks.environments.protocol import Environment, with_checked_siblings
from tasks.environments.runner import make_runner
from tasks.environments.tagged_answer import MALFORMED_VARIANTS, TaggedAnswer
from tasks.environments.tags import hard_format, mark
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.programs.contract import HEADER, prompt_of
from tasks.programs.sandbox.sandbox import Program
from tasks.records import Problem, Result, Sibling

SANDBOX = load_params(Path(__file__).parents[3] / "params.yaml").sandbox.model_copy(update={"allow_weak": True})
CODE = HEADER + "    a = n[0] * n[1]\n    b = a + 5\n    return b\n"
QUESTION = "12 boxes of 4 pens, and 5 more?"
PROBLEM = Problem(
    problem_id="p",
    question=QUESTION,
    answer=53,
    source="test",
    siblings=[Sibling(question="3 boxes of 9 pens, and 5 more?", answer=32)],
)
DEMONSTRATION = "<think>\n12 * 4 = 48\n48 + 5 = 53\n</think>\n<answer>\n53\n</answer>"


def results(environment: Environment, *texts: str) -> list[Result]:
    """What each of them gives on QUESTION."""
    with make_runner(environment, SANDBOX, None) as runner:
        return [first for first, *_ in runner.run([Program(text, (QUESTION,)) for text in texts])]


def test_a_program_and_an_answer_are_right_for_the_same_problem() -> None:
    for environment, text in ((WorkflowEnvironment(), CODE), (TaggedAnswer(), DEMONSTRATION)):
        (result,) = results(environment, environment.text(text))
        assert environment.is_right(result, PROBLEM.answer)
        assert not environment.is_right(result, PROBLEM.answer + 1)


def test_a_program_is_checked_on_the_siblings_too_an_answer_is_not() -> None:
    assert with_checked_siblings(WorkflowEnvironment(), PROBLEM) == PROBLEM
    assert with_checked_siblings(TaggedAnswer(), PROBLEM).questions == (QUESTION,)


def test_a_policy_from_scratch_reads_the_question_alone_any_other_is_told_the_form() -> None:
    assert WorkflowEnvironment().prompt(QUESTION, "base") == prompt_of(QUESTION, "base")
    for environment in (WorkflowEnvironment(), TaggedAnswer()):
        assert environment.prompt(QUESTION, "scratch") == f"{QUESTION}\n"
        assert environment.prompt(QUESTION, "base").endswith(f"{QUESTION}\n")
    assert all(
        tag in TaggedAnswer().prompt(QUESTION, "base") for tag in ("<think>", "</think>", "<answer>", "</answer>")
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (DEMONSTRATION, 53),
        ("<answer>53</answer>", 53),
        ("<answer> $1,250.50 </answer>", 1250.5),
        ("<answer>\\boxed{3/4}</answer>", 0.75),
        ("<answer>20%</answer>", "20%"),
        ("<think>53</think>", None),
        ("53", None),
        ("<answer>no idea</answer>", None),
        ("", None),
    ],
)
def test_the_answer_is_read_from_its_block_and_from_nowhere_else(text: str, value: float | str | None) -> None:
    (result,) = results(TaggedAnswer(), text)
    assert (result.status, result.value) == (("ok", value) if value is not None else ("error", None))


def test_a_demonstration_earns_full_terms_and_a_malformed_one_less() -> None:
    environment = TaggedAnswer(strict=True)
    whole = environment.demonstration(CODE, QUESTION)
    assert whole == DEMONSTRATION
    assert [term(PROBLEM, whole, []) for term in environment.terms.values()] == [0.5, 0.5]
    for malform in MALFORMED_VARIANTS:
        malformed = malform(whole)
        assert hard_format(malformed) + mark(malformed) < 1
    malformed_texts = {environment.demonstration(CODE, QUESTION, seed) for seed in range(40)}
    assert malformed_texts == {malform(whole) for malform in MALFORMED_VARIANTS}
    assert environment.demonstration(CODE, QUESTION, 3) == environment.demonstration(CODE, QUESTION, 3)


def test_a_workflow_is_its_own_demonstration() -> None:
    assert (
        WorkflowEnvironment().demonstration(CODE, QUESTION)
        == WorkflowEnvironment().demonstration(CODE, QUESTION, 1)
        == CODE
    )


def test_strict_terms_demand_new_lines() -> None:
    bare = "<answer>123</answer>"
    lenient, strict = (environment_of("answer", strict=strict).terms for strict in (False, True))
    assert [term(PROBLEM, bare, []) for term in lenient.values()] == [0.25, 0.25]
    assert [term(PROBLEM, bare, []) for term in strict.values()] == [0, 0]


@given(st.text())
def test_any_text_can_be_kept_and_read(text: str) -> None:
    kept = TaggedAnswer().text(text)
    assert kept.encode() == TaggedAnswer().text(kept).encode()
    (result,) = results(TaggedAnswer(), kept)
    assert result.status in ("ok", "error")


class Careless(Direct):
    """Its parser breaks down over some texts."""

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        return question

    def parse(self, text: str) -> int:
        return int(text)


def test_a_parser_that_breaks_down_is_no_wrong_answer() -> None:
    good, bad = results(Careless(), "53", "fifty-three")
    assert (good.status, good.value) == ("ok", 53)
    assert bad.status == "failed"
    assert bad.error == "parse: ValueError: invalid literal for int() with base 10: 'fifty-three'"


class Mute(Direct):
    """It cannot read what it asks for."""

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        return question


def test_an_environment_without_a_parser_is_refused_before_anything_is_written() -> None:
    with pytest.raises(GraftError, match=r"^environment: .*:Mute: .*abstract.* parse"):
        environment_of(f"{__name__}:Mute")


class Strange(Careless):
    """So does its check."""

    def check(self, value: float | str, answer: float) -> bool:
        raise ZeroDivisionError(f"{value} / {answer}")


def test_a_check_that_breaks_down_is_told_in_one_line() -> None:
    (result,) = results(Strange(), "53")
    with pytest.raises(
        GraftError, match=r"^environment: Strange\.check\(53, 0\) raised ZeroDivisionError: 53 / 0; fix"
    ):
        Strange().is_right(result, 0)


OWN = '''"""Yes or no: does a shelf hold an even number of books?"""

from collections.abc import Sequence

from tasks.environments.direct import Direct
from tasks.records import Problem, Result


def brief(problem: Problem, text: str, results: Sequence[Result]) -> float:
    """1 for one word, less for more."""
    return 1 / max(len(text.split()), 1)


class Parity(Direct):
    """Answers are yes (1) or no (0)."""

    terms = {"brief": brief}

    def prompt(self, question: str, base: str, served: bool = False) -> str:
        return f"Is the answer even? Say yes or no.\\n{question}\\n"

    def parse(self, text: str) -> str | None:
        word = text.strip().lower().rstrip(".")
        return word if word in ("yes", "no") else None

    def check(self, value: int | float | str, answer: int | float) -> bool:
        return (value == "yes") == (answer % 2 == 0)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "parity.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("parity", None)


@pytest.mark.usefixtures("own")
def test_one_of_the_users_own_takes_less_than_sixty_lines() -> None:
    assert len(OWN.splitlines()) < 60
    environment = environment_of("parity:Parity")
    said = results(environment, "Yes.", "no", "perhaps")
    assert [environment.is_right(result, 54) for result in said] == [True, False, False]
    assert [environment.is_right(result, 53) for result in said] == [False, True, False]
    assert environment.terms["brief"](PROBLEM, "yes it is", said) == pytest.approx(1 / 3)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere:Parity", "No module named 'nowhere'"),
        ("parity:Oddity", "has no attribute 'Oddity'"),
        ("parity:brief", "missing 3 required positional arguments"),
        ("tasks.records:Record", "has no asks_siblings; let it inherit tasks.environments.direct.Direct"),
    ],
)
def test_what_is_no_environment_is_refused_in_one_line(name: str, why: str) -> None:
    with pytest.raises(GraftError, match=f"^environment: {name}.*{why}") as error:
        environment_of(name)
    assert "\n" not in str(error.value)
