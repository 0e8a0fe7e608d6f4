"""The workflow contract: names, prompts, and reading a workflow out of a completion."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.programs.code_blocks import code_of
from tasks.programs.contract import HEADER, prompt_of, workflow_id
from tasks.programs.operators.builtin import OPERATORS, with_context
from tasks.programs.operators.model_calls import MODEL_OPERATORS

CODE = HEADER + "    return n[0]\n"
COMPLETIONS = {
    CODE: CODE, CODE + "\n  \n": CODE, "\n \n" + CODE.rstrip(): CODE, CODE.replace("\n", "\r\n"): CODE,
    f"```python\n{CODE}```": CODE, f"Here it is:\n```py\n{CODE}```\nDone.": CODE, f"```\n{CODE}": CODE,
    f"```\nx = 1\n```\nand\n```python3\n{CODE}\n\n```": CODE, "```python\n```": "", "```": "", f"{CODE}```": CODE,
    "": "", " \n ": "", "   x = 1": "   x = 1\n",
}  # fmt: skip


@pytest.mark.parametrize("text", COMPLETIONS)
def test_code_of(text: str) -> None:
    assert code_of(text) == COMPLETIONS[text]


PIECES = ["```", "```python", "\n", "def solve(problem):", "  ", "x = 1", "\r\n", "'"]


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_code_of_twice_is_code_of_once(text: str) -> None:
    assert code_of(code_of(text)) == code_of(text)


@given(st.text(), st.text())
def test_workflow_id_depends_on_the_code_only(one: str, other: str) -> None:
    assert len(workflow_id(one)) == 16
    assert int(workflow_id(one), 16) >= 0
    assert (workflow_id(one) == workflow_id(other)) == (one == other)
    assert workflow_id("") == "e3b0c44298fc1c14"  # sha256 of nothing
    assert workflow_id("\ud800") != workflow_id("\ud801")  # what a model writes need not be Unicode


@given(st.text(st.characters()))
def test_any_code_can_be_written_to_a_file(text: str) -> None:
    assert code_of(text).encode().decode() == code_of(text)
    assert code_of("x = '\ud800 \udc00'") == "x = '\ufffd \ufffd'\n"
    assert code_of("x = '\ud83d\ude00 \ufeff'") == "x = '😀 \ufeff'\n"


def test_prompt() -> None:
    assert prompt_of("How many?", "scratch") == "How many?\n"
    prompt = prompt_of("How many?", "Qwen/Qwen3-0.6B")
    assert prompt == prompt_of("How many?", "./folder")
    assert prompt.endswith("Problem: How many?\n")
    assert [name for name in OPERATORS if f"- {name}(" not in prompt] == ["context"]
    with_one = prompt_of(with_context("Sue is 9.", "How old is she?"), "./folder", wanted="a short text")
    assert all(f"- {name}(" in with_one for name in OPERATORS)
    assert "returns its answer as a short text.\nThese functions" in with_one
    assert not any(f"- {name}(" in prompt for name in MODEL_OPERATORS)
    served = prompt_of("How many?", "./folder", served=True)
    assert all(f"- {name}(" in served for name in [*OPERATORS, "run", *MODEL_OPERATORS] if name != "context")
    assert code_of(prompt).startswith(HEADER)  # the example in it keeps the contract that it explains
