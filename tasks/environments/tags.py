"""Format terms and parser of tagged answers: `<think> … </think> <answer> … </answer>`.

A block runs from an opening tag to the next closing tag of its name without another opening tag of that name between
them: the innermost of nested blocks counts, an unclosed one is plain text. Tags are case-sensitive and without blanks:
`<THINK>` and `< think >` are plain text, and so are `<think> and </think>`, the words of the instructions.

The answer is the first answer block outside thoughts: a text that goes on after it has begun another problem. Thoughts
are think blocks, all before a `</think>` that no tag opens (the prompt did), and all after a `<think>` that no tag
closes, but for an answer block that ends the text.

Every function is linear in the length of the text.
"""

import re

TAGS = ("<think>", "</think>", "<answer>", "</answer>")

_TAG = re.compile(r"<(/?)(think|answer)>")
_OWN_LINE = re.compile(r"^</?(?:think|answer)>$", re.MULTILINE)
# The format of the well-known GRPO scripts; linear because each tag occurs once, which is checked first.
_BOTH = re.compile(r"<think>\n.*\n</think>\n<answer>\n.*\n</answer>\n?", re.DOTALL)
_ANSWER = re.compile(r"<answer>\n.*\n</answer>\n?", re.DOTALL)
_BLANKS = re.compile(r"\s*")
_INSTRUCTED = " and "

Span = tuple[int, int]


def hard_format(text: str, strict: bool = False) -> float:
    """0.5 for a think block before the answer and no block after it, 0.25 for any other answer block, else 0.

    New lines around the tags and text outside the blocks are ignored, empty blocks count. A block that begins after the
    answer counts before it ends.

    `strict`: the text must be `<think>\\n…\\n</think>\\n<answer>\\n…\\n</answer>`, or its second half for 0.25, with at
    most one new line at the end and each tag once. Never more than without `strict`.
    """
    if strict:
        return _strict_format(text)
    thoughts, answers = _blocks(text)
    if not answers:
        return 0.0
    start, end = answers[0]
    goes_on = any(not tag[1] for tag in _TAG.finditer(text, end))
    return 0.5 if thoughts and thoughts[0][1] <= start and not goes_on else 0.25


def mark(text: str, strict: bool = False) -> float:
    """0.125 for each of the four TAGS that occurs in the text.

    `strict`: only tags on a line of their own count. Never more than without `strict`, and at least
    `hard_format` of the same strictness.
    """
    present = set(_OWN_LINE.findall(text)) if strict else {tag for tag in TAGS if tag in text}
    return 0.125 * len(present)


def answer_block(text: str) -> str | None:
    """The stripped content of the answer; None if there is none."""
    _, answers = _blocks(text)
    if not answers:
        return None
    start, end = answers[0]
    return text[start:end].strip()


def thoughts(text: str) -> str:
    """The text before the answer, in tags or not; without an answer all of it."""
    _, answers = _blocks(text)
    return text[: answers[0][0]] if answers else text


def _strict_format(text: str) -> float:
    tags = tuple(tag[0] for tag in _TAG.finditer(text))
    if tags == TAGS and _BOTH.fullmatch(text):
        return 0.5
    return 0.25 if tags == TAGS[2:] and _ANSWER.fullmatch(text) else 0.0


def _blocks(text: str) -> tuple[list[Span], list[Span]]:
    """Spans of the contents of think blocks, and of the answer blocks outside thoughts, in the order of the text."""
    thoughts: list[Span] = []
    answers: list[Span] = []
    opened = {"think": 0}  # start of the content of each open block; 0: the prompt may have opened the first thoughts
    for tag in _TAG.finditer(text):
        closing, name = tag.groups()
        if not closing:
            opened[name] = tag.end()
            continue
        start = opened.pop(name, None)
        if start is None or text[start : tag.start()] == _INSTRUCTED:
            continue
        span = (start, tag.start())
        if name == "answer":
            answers.append(span)
            continue
        if start:
            thoughts.append(span)
        while answers and answers[-1][0] > start:
            answers.pop()
        if opened.get("answer", -1) > start:
            del opened["answer"]
    unclosed = opened.get("think") or len(text)
    return thoughts, [span for span in answers if span[0] < unclosed or _ends(text, span)]


def _ends(text: str, answer: Span) -> bool:
    """Whether only blanks follow an answer block."""
    return _BLANKS.fullmatch(text, answer[1] + len("</answer>")) is not None
