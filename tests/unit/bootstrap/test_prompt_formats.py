"""A prompt has worked examples, the question and a prefilled beginning, in the form that the tokenizer can write."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.bootstrap.choose_prompt import choose_format, formats_of, worked_examples
from tasks.bootstrap.prompt_formats import STYLES, common_beginning, prompt_format
from tasks.environments.prompts import operations_in, prompt_of
from tasks.environments.protocol import Environment, Solved
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.environments.tags import hard_format, mark
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.text import completion_text, encode_completion
from tasks.params.params import Params
from tasks.params.sections import PromptParams
from tasks.programs.contract import HEADER
from tasks.programs.workflow_files import write_workflows
from tasks.records.policy import PromptFormat, PromptStyle
from tasks.records.problems import Problem, Sibling, WorkedExample
from tests.support.policies import MakePolicy
from tests.support.records import question_of
from tests.support.stage_params import SHIPPED, shipped_params

CODE = "def solve(problem):\n    n = numbers(problem)\n    return n[0] {} n[1]\n"
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}{% if add_generation_prompt %}<me>{% endif %}"
)
PLAIN = PromptParams(style="plain", examples=2, file=None, prefill=None, stop=[])
WORKFLOW = WorkflowEnvironment()


def problem(name: str, question: str = "2 and 3?", answer: int = 5) -> Problem:
    return Problem(
        problem_id=name, question=question, answer=answer, source="x", siblings=[Sibling(question="4 and 5?", answer=9)]
    )


def examples(*operators: str) -> list[WorkedExample]:
    solved = [(problem(f"p{i}", f"{i} and {i}?"), CODE.format(each)) for i, each in enumerate(operators)]
    return shown_by(WORKFLOW, solved, len(operators))


def shown_by(environment: Environment, solved: list[Solved], count: int) -> list[WorkedExample]:
    return worked_examples(Path(), params(examples=count), environment, solved)


@pytest.fixture
def policy(make_policy: MakePolicy) -> Policy:
    made = make_policy()
    made.tokenizer.chat_template, made.base = TEMPLATE, "base"
    return made


def written(policy: Policy, style: PromptStyle, shown: list[WorkedExample], question: str = "7 and 8?") -> str:
    form = prompt_format(style, policy.tokenizer, WORKFLOW, PLAIN, shown)
    return prompt_of(WORKFLOW, form, question_of(question), "base")


def test_plain_text_shows_examples_each_with_its_end_and_goes_on_after_the_question(policy: Policy) -> None:
    end, beginning = policy.tokenizer.eos_token, "```python\ndef solve(problem):\n    n = numbers(problem)"
    first, second = (f"```python\n{CODE.format(each)}```" for each in "+*")
    assert written(policy, "plain", examples("+", "*")) == (
        f"Problem: 0 and 0?\n{first}{end}\n\nProblem: 1 and 1?\n{second}{end}\n\nProblem: 7 and 8?\n{beginning}"
    )


def test_turns_show_examples_as_earlier_messages(policy: Policy) -> None:
    found = written(policy, "turns", examples("+", "*"))
    assert found.startswith(f"<user>0 and 0?\n</><assistant>```python\n{CODE.format('+')}```</><user>1 and 1?")
    assert found.endswith("<user>7 and 8?\n</><me>```python\ndef solve(problem):\n    n = numbers(problem)")


def test_a_chat_message_has_the_instructions_and_so_has_every_prompt_without_examples(policy: Policy) -> None:
    asked = WORKFLOW.prompt("7 and 8?", "base")
    assert written(policy, "chat", []) == written(policy, "turns", []) == f"<user>{asked}</><me>"
    assert written(policy, "plain", []) == f"Problem: {asked}"
    assert f"{asked}</><me>" in written(policy, "chat", examples("+", "*"))
    assert "Problem: 0 and 0?" in written(policy, "chat", examples("+", "*"))


def test_a_prefill_of_the_users_own_is_taken_as_it_is(policy: Policy) -> None:
    for prefill in ("", "def "):
        own = PLAIN.model_copy(update={"prefill": prefill, "stop": ["```"]})
        form = prompt_format("plain", policy.tokenizer, WORKFLOW, own, examples("+", "*"))
        assert (form.prefill, form.stop) == (prefill, ["```"])


R1 = (
    "{% for m in messages %}{% if m.role == 'user' %}<|User|>{{ m.content }}{% else %}<|Assistant|>"
    "{{ m.content.split('</think>')[-1] }}<|eos|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|><think>\n{% endif %}"
)
"""DeepSeek-R1's: it deletes the thoughts of earlier turns, and begins those of the answer."""

THINKING = [
    "<think>\n2 + 3 = 5\n</think>\n<answer>\n5\n</answer>",
    "<think>\n4 + 5 = 9\n</think>\n<answer>\n9\n</answer>",
]
TAGGED = TaggedAnswer()


def thinking_form(policy: Policy, style: PromptStyle, template: str, prefill: str | None = None) -> PromptFormat:
    policy.tokenizer.chat_template = template
    shown = [WorkedExample(question=f"{n}?", completion=text) for n, text in enumerate(THINKING)]
    return prompt_format(style, policy.tokenizer, TAGGED, PLAIN.model_copy(update={"prefill": prefill}), shown)


@pytest.mark.parametrize("style", ["chat", "turns"])
def test_thoughts_that_a_template_begins_are_the_beginning_of_the_completion(
    style: PromptStyle, policy: Policy
) -> None:
    form = policy.prompt_format = thinking_form(policy, style, R1)
    assert form.prefill == "<think>\n"
    prompt = prompt_of(TAGGED, form, question_of("7 and 8?"), "base")
    assert prompt.endswith("<|Assistant|><think>\n")
    assert prompt.count("<|Assistant|><think>") == (3 if style == "turns" else 1)
    written = "7 + 8 = 14, so <answer>14</answer>? No.\n</think>\n<answer>\n15\n</answer>"
    text = completion_text(policy, encode_completion(policy, written))
    assert (hard_format(text), mark(text), TAGGED.parse(text)) == (0.5, 0.5, 15)
    assert (hard_format(text, strict=True), mark(text, strict=True)) == (0, 0.5)  # a tag in it is on no line of its own
    cut = completion_text(policy, encode_completion(policy, "7 + 8 = 14, so <answer>14</answer>? No"))
    assert TAGGED.parse(cut) is None


@pytest.mark.parametrize("prefill", ["", "We add.", None])
def test_a_prefill_follows_the_tag_of_the_template(prefill: str | None, policy: Policy) -> None:
    form = thinking_form(policy, "turns", R1, prefill)
    assert form.after == "<|Assistant|>"
    assert form.prefill == f"<think>\n{prefill or ''}"


def test_thoughts_of_workflows_do_not_begin_with_their_code(policy: Policy) -> None:
    policy.tokenizer.chat_template = R1
    form = prompt_format("turns", policy.tokenizer, WORKFLOW, PLAIN, examples("+", "*"))
    assert form.prefill == "<think>\n"
    code = CODE.format("+")
    written = f"{form.prefill}```python\n{CODE.format('-')}```\nor</think>```python\n{code}```"
    assert WORKFLOW.text(written) == code
    assert WORKFLOW.text(written.partition("</think>")[0]) == ""


def test_thoughts_that_a_template_closes_are_part_of_the_prompt(policy: Policy) -> None:
    closed = TEMPLATE.replace("<me>", "<me><think>\n\n</think>\n\n")
    form = thinking_form(policy, "chat", closed, "")
    assert (form.after, form.prefill) == ("</><me><think>\n\n</think>\n\n", "")


@pytest.mark.parametrize("template", [R1, TEMPLATE])
def test_worked_examples_are_shown_as_they_are(template: str, policy: Policy) -> None:
    form = thinking_form(policy, "turns", template)
    assert all(text in form.before for text in THINKING)


TEMPLATES = {
    "a syntax error": "{% for %}",
    "a refusal": "{{ raise_exception('no system role') }}",
    "what the sandbox refuses": "{{ messages.__class__.__base__.__subclasses__() }}",
    "nothing of the message": "hello",
    "another order": "{{ messages[-1].content }}{{ messages[0].content }}",
    "endless recursion": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "an unknown name": "{{ nothing.of.this }}",
    "no text": {"tool_use": "x"},
    "a number": 5,
    "too much": "{{ 'x' * 2000000 }}{{ messages[0].content }}",
}


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_that_cannot_write_a_chat_is_one_line(kind: str, policy: Policy) -> None:
    policy.tokenizer.chat_template = TEMPLATES[kind]
    with pytest.raises(
        GraftError, match=r"^policy\.base: its chat template .*; correct chat_template, or set"
    ) as caught:
        prompt_format("turns", policy.tokenizer, WORKFLOW, PLAIN, examples("+", "*"))
    assert "\n" not in str(caught.value)


@given(st.lists(st.text("ab\n ", max_size=12), max_size=4))
def test_the_common_beginning_is_whole_lines_of_all_texts(texts: list[str]) -> None:
    common = common_beginning(texts)
    assert all(text.startswith(common) for text in texts)
    assert common == common.rstrip()
    assert len(texts) > 1 or not common


def test_examples_differ_as_long_as_there_are_different_codes() -> None:
    shown = examples("+", "+", "*", "+", "-")
    assert [next(sign for sign in "+*-" if f" {sign} " in each.completion) for each in shown] == list("+*-++")


def test_operators_that_are_not_shown_yet_come_first() -> None:
    codes = [
        HEADER + f"    return {each}\n" for each in ("n[0] * n[1]", "n[1] * n[2]", "n[0] * 2 - n[1]", "n[0] + n[1]")
    ]
    solutions = [(problem(f"p{i}", f"{i}?"), code) for i, code in enumerate(codes)]
    shown = shown_by(WORKFLOW, solutions, 3)
    assert [example.question for example in shown] == ["0?", "3?", "1?"]
    assert operations_in(codes[2]) == {"Mult", "Sub"}
    assert operations_in(HEADER + "    return majority([n[0], compare(n[1], '3/4')])\n") == {"majority", "compare"}


def test_environments_show_completions_of_their_own_kind() -> None:
    (shown,) = shown_by(TaggedAnswer(), [(problem("p"), HEADER + "    a = n[0] + n[1]\n    return a\n")], 1)
    assert shown.completion.startswith("<think>\n")
    assert "<answer>\n5\n</answer>" in shown.completion


def params(**prompt: object) -> Params:
    own = SHIPPED.policy.prompt.model_copy(update=prompt)
    return shipped_params(policy=SHIPPED.policy.model_copy(update={"base": "base", "prompt": own, "max_new_tokens": 8}))


def test_examples_come_from_a_file_with_as_many_as_are_asked_for(tmp_path: Path) -> None:
    lines = [{"question": f"{i}?", "completion": "5"} for i in range(3)]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    two = params(file="own.jsonl", examples=2)
    assert [e.question for e in worked_examples(tmp_path, two, WORKFLOW, [])] == ["0?", "1?"]
    with pytest.raises(GraftError, match=r"own\.jsonl: has 3 worked examples, policy\.prompt\.examples is 4; add some"):
        worked_examples(tmp_path, params(file="own.jsonl", examples=4), WORKFLOW, [])


def test_a_style_of_chat_needs_a_chat_template(policy: Policy) -> None:
    assert [f.style for f in formats_of(params(style="auto"), policy, WORKFLOW, [])] == list(STYLES)
    policy.tokenizer.chat_template = None
    assert [f.style for f in formats_of(params(style="auto"), policy, WORKFLOW, [])] == ["plain"]
    with pytest.raises(GraftError, match=r"policy\.prompt\.style: turns, .* has no chat template; set it to plain"):
        formats_of(params(style="turns"), policy, WORKFLOW, [])


def test_auto_tries_each_style_and_takes_the_best(tmp_path: Path, policy: Policy) -> None:
    (tmp_path / "own.jsonl").write_text('{"question": "1?", "completion": "1"}\n')
    write_workflows(Layout(tmp_path).coldstart, [])
    asked = params(style="auto", file="own.jsonl", examples=1)
    form, metrics = choose_format(Layout(tmp_path), asked, policy, WORKFLOW, [problem("a"), problem("b")])
    assert {name.split("/")[1] for name in metrics} == {"plain", "turns"}  # the instructions of chat are too long
    assert metrics["prompt/plain/pass_at_k"] == 0  # a random policy
    assert metrics["prompt/plain/completion_tokens"] <= 8
    assert form.style in STYLES
    named = params(style="plain", file="own.jsonl", examples=1)
    assert choose_format(Layout(tmp_path), named, policy, WORKFLOW, []) == (
        formats_of(named, policy, WORKFLOW, worked_examples(tmp_path, named, WORKFLOW, []))[0],
        {},
    )
