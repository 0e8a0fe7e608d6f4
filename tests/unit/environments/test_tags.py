"""The score of an answer's tags: a table of cases, and laws."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.environments.tags import TAGS, answer_block, hard_format, mark

GOOD = "<think>\na\n</think>\n<answer>\n5\n</answer>"

# name: (text, hard_format, mark, hard_format strict, mark strict, answer_block)
CASES: dict[str, tuple[str, float, float, float, float, str | None]] = {
    "on one line": ("<think>a</think><answer>5</answer>", 0.5, 0.5, 0, 0, "5"),
    "new lines": (GOOD, 0.5, 0.5, 0.5, 0.5, "5"), "new line at the end": (GOOD + "\n", 0.5, 0.5, 0.5, 0.5, "5"),
    "two new lines at the end": (GOOD + "\n\n", 0.5, 0.5, 0, 0.5, "5"),
    "many lines in it": (GOOD.replace("\na\n", "\na\n\nb\n"), 0.5, 0.5, 0.5, 0.5, "5"),
    "carriage returns": (GOOD.replace("\n", "\r\n") + "\r\n", 0.5, 0.5, 0, 0, "5"),
    "text before": ("Well. " + GOOD, 0.5, 0.5, 0, 0.375, "5"),
    "text after": (GOOD + " That is it.", 0.5, 0.5, 0, 0.375, "5"),
    "line before": ("Well.\n" + GOOD, 0.5, 0.5, 0, 0.5, "5"),
    "the answer alone": ("<answer>123</answer>", 0.25, 0.25, 0, 0, "123"),
    "the answer alone in lines": ("<answer>\n123\n</answer>", 0.25, 0.25, 0.25, 0.25, "123"),
    "one new line for two": ("<answer>\n</answer>", 0.25, 0.25, 0, 0.25, ""),
    "thoughts alone": ("<think>\na\n</think>", 0, 0.25, 0, 0.25, None), "no tag": ("5", 0, 0, 0, 0, None),
    "nothing": ("", 0, 0, 0, 0, None), "empty blocks": ("<think></think><answer></answer>", 0.5, 0.5, 0, 0, ""),
    "repeated": (GOOD + "\n" + GOOD.replace("5", "6"), 0.25, 0.5, 0, 0.5, "5"),
    "two answers": ("<think>a</think><answer>5</answer><answer>6</answer>", 0.25, 0.5, 0, 0, "5"),
    "thoughts between answers": ("<answer>5</answer><think>a</think><answer>6</answer>", 0.25, 0.5, 0, 0, "5"),
    "reversed blocks": ("<answer>5</answer><think>a</think>", 0.25, 0.5, 0, 0, "5"),
    "reversed in lines": ("<answer>\n5\n</answer>\n<think>\na\n</think>", 0.25, 0.5, 0, 0.5, "5"),
    "nested answers": ("<answer>4<answer>5</answer></answer>", 0.25, 0.25, 0, 0, "5"),
    "answer in the thoughts, in lines": ("<think>\n<answer>\n5\n</answer>\n</think>", 0, 0.5, 0, 0.5, None),
    "answer in and after them": ("<think><answer>4</answer></think><answer>5</answer>", 0.5, 0.5, 0, 0, "5"),
    "crossed": ("<think>a<answer></think>5</answer>", 0, 0.5, 0, 0, None),
    "think unclosed": ("<think>a <answer>5</answer>", 0.25, 0.375, 0, 0, "5"),
    "another problem, after which it was cut": (
        "<think>a</think><answer>5</answer>\n\nProblem: b?\n<think>c", 0.25, 0.5, 0, 0, "5"),
    "draft in thoughts that do not end": ("<think>a <answer>5</answer> or not", 0, 0.375, 0, 0, None),
    "draft in thoughts of the prompt": ("a<answer>4</answer></think><answer>5</answer>", 0.25, 0.375, 0, 0, "5"),
    "thoughts that end again after the answer": ("<think>a</think><answer>5</answer></think>", 0.5, 0.5, 0, 0, "5"),
    "words of the instructions": (
        "Between <think> and </think>, <answer> and </answer>: <think>a</think><answer>5</answer>",
        0.5, 0.5, 0, 0, "5"),
    "think unopened": ("a</think><answer>5</answer>", 0.25, 0.375, 0, 0, "5"),
    "answer unclosed": ("<think>a</think><answer>5", 0, 0.375, 0, 0, None),
    "unclosed, then again": ("<think>a</think><answer>4<answer>5</answer>", 0.5, 0.5, 0, 0, "5"),
    "upper case": ("<THINK>a</THINK><ANSWER>5</ANSWER>", 0, 0, 0, 0, None),
    "10,000 tags": ("<think></think><answer></answer>" * 2500, 0.25, 0.5, 0, 0, ""),
    "10,000 opening tags": ("<think>" * 5000 + "<answer>" * 5000, 0, 0.25, 0, 0, None),
}  # fmt: skip

TAGS_IN = re.compile("|".join(TAGS))
PIECES = [*TAGS, "\n", "\n", " ", "5", "a", "<", "</", ">", "<answer", "answer>"]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=30).map("".join), st.text(max_size=40))


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    text, *scores, answer = CASES[name]
    assert [hard_format(text), mark(text), hard_format(text, strict=True), mark(text, strict=True)] == scores
    assert answer_block(text) == answer


@given(TEXTS)
def test_bounds(text: str) -> None:
    for strict in (False, True):
        assert hard_format(text, strict) in (0, 0.25, 0.5)
        assert mark(text, strict) in (0, 0.125, 0.25, 0.375, 0.5)
        assert mark(text, strict) >= hard_format(text, strict)
        assert mark(text, strict) <= mark(text)
        assert hard_format(text, strict) <= hard_format(text)
    assert (answer_block(text) is None) == (hard_format(text) == 0)


@given(TEXTS, TEXTS)
def test_more_text_takes_no_mark_away(text: str, more: str) -> None:
    assert mark(text + more) >= max(mark(text), mark(more))
    assert mark(f"{text}\n{more}", strict=True) >= max(mark(text, strict=True), mark(more, strict=True))
    assert mark(text * 3) == mark(text + text)


@given(TEXTS, st.text(alphabet="ab<>/\n 5", max_size=20), st.text(alphabet="ab<>/\n 5", max_size=20))
def test_text_inside_and_before_the_blocks_makes_no_difference(before: str, thought: str, answer: str) -> None:
    blocks = f"<think>{thought}</think>\n<answer>{answer}</answer>"
    for text in (blocks, before + blocks) if not {"<think>", "<answer>"} & set(TAGS_IN.findall(before)) else (blocks,):
        assert hard_format(text) == 0.5
        assert answer_block(text) == answer.strip()


@given(TEXTS, TEXTS)
def test_what_follows_an_answer_does_not_change_it(text: str, more: str) -> None:
    whole = f"<think>a</think><answer>5</answer>{text}"
    assert answer_block(whole) == "5"
    assert hard_format(whole + more) <= hard_format(whole)


LONG = [*TAGS, "<think><answer>", "<answer></think>", "<", "\n", "<think>\n</think>\n<answer>\n"]


@pytest.mark.parametrize("piece", LONG)
def test_a_long_text_is_read_in_linear_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    for strict in (False, True):
        assert 0 <= hard_format(text, strict) <= mark(text, strict) <= 0.5
    assert answer_block(text) in (None, "")
