"""What a model is asked when it revises a workflow, and how its reply is read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.programs.contract import prompt_of
from tasks.programs.sandbox.run_program import ALL_OPERATORS
from tasks.records import Result, Sibling
from tasks.search.revisions.prompt import (
    MAX_CHANGE,
    EvaluatedWorkflow,
    Trial,
    change_key,
    parse_revision,
    revision_prompt,
)
from tests.support.records import question_of

QUESTION = "3 boxes of 4 pens?"
ASKED = question_of(QUESTION, 12, siblings=[Sibling(question=f"{n} boxes of 4 pens?", answer=4 * n) for n in (5, 6)])
CODE = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[9]\n"
WRONG = Result(status="ok", value=7)
FAILED = Result(status="error", error="IndexError: list index out of range")


def asked(trials: list[Trial] | None = None, results: tuple[Result, ...] = (WRONG, FAILED, FAILED)) -> str:
    return revision_prompt(ASKED, EvaluatedWorkflow(CODE, results, [False] * len(results)), trials or [])


def test_the_prompt_holds_the_contract_the_problem_the_parent_and_what_running_it_gave() -> None:
    prompt = asked()
    contract = prompt_of(QUESTION, "a model", served=True).partition("Answer with the code only.")[0]
    assert prompt.startswith(contract)
    listed = {name for name in ALL_OPERATORS if f"- {name}(" in prompt}
    assert listed == ALL_OPERATORS.keys() - {"context", "test"}  # the problem has neither a context nor unit tests
    for part in (f"Problem: {QUESTION}\n", f"```python\n{CODE}```\n", "begins with Change:"):
        assert prompt.count(part) == 1
    assert (
        "What running it gave:\n"
        "- on this problem: wrong, it returned 7\n"
        "- on the same problem with other quantities (2 ×): error: IndexError\n"
    ) in prompt
    alike = asked(results=(FAILED, FAILED, WRONG))
    assert "- on this problem: error: IndexError: list index out of range\n" in alike
    assert "other quantities (1 ×): error: IndexError: list index out of range\n" in alike
    assert "other quantities (1 ×): wrong, it returned 7\n" in alike
    assert "tried" not in prompt
    paraphrase = Sibling(question="Its seat?", answer="Paris")
    same = question_of("Of France?", "Paris", evaluator="text", siblings=[paraphrase])
    worded = revision_prompt(same, EvaluatedWorkflow(CODE, (FAILED, FAILED), [False] * 2), [])
    assert "- on a variant of this problem (1 ×): error: IndexError" in worded


def test_the_prompt_never_holds_the_question_of_a_sibling() -> None:
    """A program can return its question, or raise it."""
    secret = "6 boxes of 212 pens?"
    leaks = [
        Result(status="ok", value=secret),
        Result(status="error", error=f"ValueError: invalid literal for int(): {secret!r}"),
        Result(status="error", error=f"{secret}: raised"),
        Result(status="ok", value=int.from_bytes(secret.encode())),
    ]
    prompt = asked(results=(WRONG, *leaks))
    assert "it returned a text\n" in prompt
    assert "error: ValueError\n" in prompt
    assert "(1 ×): error\n" in prompt
    assert "212" not in prompt.partition("What running it gave")[2]
    assert str(int.from_bytes(secret.encode()))[:7] not in prompt


FENCED = f"```python\n{CODE}```"


@pytest.mark.parametrize(
    ("reply", "change"),
    [
        (f"Change: read n[1]\n\n{FENCED}\nThis works.", "read n[1]"),
        (f"**Change:** read n[1]\n{FENCED}", "read n[1]"),
        (f"Sure!\nI see.\n- idea : read  n[1]\n{FENCED}", "read n[1]"),
        (f"\nread n[1]\nand so on\n{FENCED}", "read n[1]"),
        (f"Change: read n[1]\n{CODE}", "read n[1]"),
        (FENCED, ""),
        (CODE, ""),
        (f"Change:\n{FENCED}", "Change:"),
    ],
)
def test_a_reply_is_a_line_and_the_code(reply: str, change: str) -> None:
    revision = parse_revision(reply)
    assert (revision.change, revision.code) == (change, CODE)
    assert parse_revision("") == parse_revision("  \n")
    assert parse_revision("Change: none").code == ""


@settings(max_examples=200)
@given(st.text(st.characters(codec=None), max_size=400), st.booleans())
def test_any_reply_gives_what_files_and_terminals_can_hold(text: str, fenced: bool) -> None:
    revision = parse_revision(f"Change: {text}\n```\n{text}\n```\n" if fenced else text)
    revision.code.encode()
    assert revision.change.isprintable()
    assert len(revision.change) <= MAX_CHANGE
    assert change_key(change_key(revision.change)) == change_key(revision.change)
