"""Problems with texts, choices and contexts, through environments, rewards and groups."""

import pytest

from tasks.environments.direct import Direct
from tasks.environments.lookup import environment_of
from tasks.environments.protocol import Environment, solved_share
from tasks.environments.runner import make_runner, program_of
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.model.rollouts.attempts import run_workflows
from tasks.params.file import load_params
from tasks.programs.efficiency import Budget
from tasks.programs.operators.builtin import context, with_context, without_context
from tasks.records.problems import Problem, Sibling
from tasks.records.programs import Result
from tasks.reward.term_worker import call
from tasks.reward.weighted_sum import reward_group
from tests.support.groups import make_group
from tests.support.records import question_of
from tests.support.stage_params import REPOSITORY, shipped_params

SANDBOX = load_params(REPOSITORY / "params.yaml").sandbox.model_copy(update={"allow_weak": True})
CODE = "def solve(problem):\n    return context(problem).split()[-1]\n"
ITALY = Sibling(question=with_context("Its capital is Rome", "Of Italy?"), answer=["Rome"], fields={"hops": 2})
FRANCE = question_of(
    with_context("Its capital is Paris", "Of France?"), ["Paris", "Lutetia"], evaluator="text", siblings=[ITALY],
    fields={"hops": 1},
)  # fmt: skip
TAGGED = "<think>\nEiffel.\n</think>\n<answer>\n{}\n</answer>"


def ok(value: int | float | str) -> Result:
    return Result(status="ok", value=value)


def results(environment: Environment, problem: Problem, *texts: str) -> list[list[Result]]:
    with make_runner(environment, SANDBOX, None) as runner:
        return runner.run([program_of(environment.text(text), problem) for text in texts])


def test_a_context_is_in_front_of_the_question_and_comes_back() -> None:
    assert context(with_context("Some\n\nQuestion: nested", "q")) == "Some\n\nQuestion: nested"
    assert without_context(with_context("Some text", "How many?")) == "How many?"
    assert (context("How many?"), without_context("How many?"), with_context(" ", "How many?")) == (
        "", "How many?", "How many?",
    )  # fmt: skip


def test_a_workflow_reads_the_context_in_the_sandbox_and_is_checked_on_each_variant() -> None:
    environment = WorkflowEnvironment()
    with make_runner(environment, SANDBOX, None) as runner:
        ((attempt,),) = run_workflows(environment, [FRANCE], [CODE], [{CODE: 3}], runner)  # type: ignore[list-item]
    assert (attempt.result.value, attempt.right, attempt.siblings_passed, attempt.samples) == ("Paris", True, True, 3)
    assert solved_share(environment, FRANCE, [ok("paris."), ok("Paris")]) == 0.5
    with pytest.raises(ValueError, match="longer"):
        solved_share(environment, FRANCE, [ok("Paris")] * 3)


def test_tagged_answers_are_numbers_or_the_text_in_the_block() -> None:
    environment = TaggedAnswer()
    (given, empty) = (first for first, *_ in results(environment, FRANCE, TAGGED.format("12 Paris"), TAGGED.format("")))
    assert (given.value, empty.status) == ("12 Paris", "error")
    ((number,),) = results(environment, question_of("How many?", 12), TAGGED.format("12 Paris"))
    assert number.value == 12
    assert environment.is_right(FRANCE, ok("the Paris"))
    assert environment.score(question_of("?", "Paris in France", evaluator="f1"), ok("Paris, France")) == 0.8
    assert not environment.is_right(question_of("?", "Paris in France", evaluator="f1"), ok("Paris, France"))


def test_prompts_ask_for_the_kind_of_answer_and_those_for_numbers_are_as_they_were() -> None:
    for environment in (WorkflowEnvironment(), TaggedAnswer()):
        number = question_of("How many?", 5)
        assert environment.prompt_for(number, "base") == environment.prompt("How many?", "base")
        assert environment.prompt_for(FRANCE, "scratch") == f"{FRANCE.question}\n"
        asked = environment.prompt_for(FRANCE, "base")
        assert "a short text" in asked
        assert "number" not in asked.partition("numbers(text)")[0]
        assert asked.endswith(f"{FRANCE.question}\n")
    assert "- context(problem)" in WorkflowEnvironment().prompt_for(FRANCE, "base")


def test_rewards_have_the_evaluators_share_and_terms_see_answer_and_fields() -> None:
    problem = question_of("Where?", ["Paris in France"], evaluator="f1", fields={"hops": 2})
    group = make_group(["a", "b"], [ok("Paris in France"), ok("Paris, France")], problem=problem)
    weights = shipped_params(rewards={"runs": 1.0}).rewards
    _, rewards = reward_group(WorkflowEnvironment(), group, weights, Budget(8, 256, None), {})
    assert [reward.terms for reward in rewards] == [
        {"correctness": 1.0, "runs": 1.0},
        {"correctness": 0.8, "runs": 1.0},
    ]
    sent = Problem.model_validate(problem.model_dump(mode="json"))  # as rewards.own gets it
    assert call(lambda problem, *_: problem.fields["hops"] + len(problem.answer), sent, "", []) == (3.0, None)


def test_enumeration_takes_numbers_only() -> None:
    number = question_of("2 and 3?", 5)
    found = WorkflowEnvironment().solutions([FRANCE, number], SANDBOX)
    assert [name for name, workflow in found.items() if workflow] == [number.problem_id]
    assert WorkflowEnvironment().solutions([FRANCE], SANDBOX) == {}


class Former(Direct):
    """An environment as it was written before `is_right` had the problem."""

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        return question

    def parse(self, text: str) -> str:
        return text

    def is_right(self, result: Result, answer: object) -> bool:  # type: ignore[override]
        return result.value == answer


def test_an_environment_with_former_arguments_is_refused_with_what_to_change() -> None:
    with pytest.raises(GraftError) as error:
        environment_of(f"{__name__}:Former")
    assert str(error.value) == (
        f"environment: {__name__}:Former.is_right(result, answer): write is_right(self, problem, result), where "
        "problem.answer is the expected answer"
    )


def test_a_problem_without_an_evaluator_has_numbers_and_is_written_as_before() -> None:
    line = question_of("2 and 3?", 5).model_dump(mode="json")
    assert not {"evaluator", "evaluator_sha256", "fields"} & line.keys()
    assert "fields" not in Sibling(question="q", answer=1).model_dump()
    for answer in ("five", True, [5], {"number": 5}):
        with pytest.raises(ValueError, match="not a number, and the problem names no"):
            question_of("2 and 3?", answer)
    with pytest.raises(ValueError, match="siblings"):
        question_of("2 and 3?", 5, siblings=[ITALY])
    for field in ("answer", "fields"):
        with pytest.raises(ValueError, match=f"{field}\n .*not finite"):
            Problem.model_validate_json(
                '{"problem_id": "p", "question": "q", "source": "s", "evaluator": "own:E", "answer": 1, '
                f'"{field}": {{"a": [NaN]}}}}'
            )
