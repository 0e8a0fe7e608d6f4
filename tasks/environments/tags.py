"""Format terms and parser of tagged answers: `<think> … </think> <answer> … </answer>`.

A block runs from an opening tag to the next closing tag of its name without another opening tag of that name between
them: the innermost of nested blocks counts, an unclosed one is plain text. An answer that begins within a think block
is ignored. Tags are case-sensitive and without blanks: `<THINK>` and `< think >` are plain text.

Every function is linear in the length of the text.
"""

import re

TAGS = ("<think>", "</think>", "<answer>", "</answer>")

_TAG = re.compile(r"<(/?)(think|answer)>")
_OWN_LINE = re.compile(r"^</?(?:think|answer)>$", re.MULTILINE)
# The format of the well-known GRPO scripts; linear because each tag occurs once, which is checked first.
_BOTH = re.compile(r"<think>\n.*\n</think>\n<answer>\n.*\n</answer>\n?", re.DOTALL)
_ANSWER = re.compile(r"<answer>\n.*\n</answer>\n?", re.DOTALL)

Span = tuple[int, int]


def hard_format(text: str, strict: bool = False) -> float:
    """0.5 for a think block before the answer block, 0.25 for the answer block alone, else 0.

    New lines around the tags and text outside the blocks are ignored, empty blocks count. The answer block is the last
    one (see `answer_block`).

    `strict`: the text must be `<think>\\n…\\n</think>\\n<answer>\\n…\\n</answer>`, or its second half for 0.25, with at
    most one new line at the end and each tag once. Never more than without `strict`.
    """
    if strict:
        return _strict_format(text)
    thoughts, answers = _blocks(text)
    if not answers:
        return 0.0
    return 0.5 if thoughts and thoughts[0][1] <= answers[-1][0] else 0.25


def mark(text: str, strict: bool = False) -> float:
    """0.125 for each of the four TAGS that occurs in the text.

    `strict`: only tags on a line of their own count. Never more than without `strict`, and at least
    `hard_format` of the same strictness.
    """
    present = set(_OWN_LINE.findall(text)) if strict else {tag for tag in TAGS if tag in text}
    return 0.125 * len(present)


def answer_block(text: str) -> str | None:
    """The stripped content of the last answer block outside think blocks; None if there is none."""
    _, answers = _blocks(text)
    if not answers:
        return None
    start, end = answers[-1]
    return text[start:end].strip()


def thoughts(text: str) -> str:
    """The text before the last answer block outside think blocks, in tags or not; without such a block all of it."""
    _, answers = _blocks(text)
    return text[: answers[-1][0]] if answers else text


def _strict_format(text: str) -> float:
    tags = tuple(tag[0] for tag in _TAG.finditer(text))
    if tags == TAGS and _BOTH.fullmatch(text):
        return 0.5
    return 0.25 if tags == TAGS[2:] and _ANSWER.fullmatch(text) else 0.0


def _blocks(text: str) -> tuple[list[Span], list[Span]]:
    """Spans of the contents of think blocks and of answer blocks, in the order of the text."""
    thoughts: list[Span] = []
    answers: list[Span] = []
    opened: dict[str, int] = {}  # start of the content of each open block
    for tag in _TAG.finditer(text):
        closing, name = tag.groups()
        if not closing:
            opened[name] = tag.end()
        elif name in opened:
            span = (opened.pop(name), tag.start())
            if name == "answer":
                answers.append(span)
                continue
            thoughts.append(span)
            while answers and answers[-1][0] > span[0]:
                answers.pop()
            if opened.get("answer", -1) > span[0]:
                del opened["answer"]
    return thoughts, answers
