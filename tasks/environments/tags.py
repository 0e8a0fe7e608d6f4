"""Answers in tags: `<think> … </think> <answer> … </answer>`. What the form earns, and what stands in the answer.

A block runs from an opening tag to the next closing tag of its name, with no other opening tag of its name between
them: of nested ones the inner one counts, an unclosed one is plain text. What stands in a think block is a thought,
so an answer that begins there is none. Tags are written as above: `<THINK>` and `< think >` are plain text.

Every function reads its text once, however many tags there are.
"""

import re

TAGS = ("<think>", "</think>", "<answer>", "</answer>")

_TAG = re.compile(r"<(/?)(think|answer)>")
_OWN_LINE = re.compile(r"^</?(?:think|answer)>$", re.MULTILINE)
# The form of the well-known GRPO scripts. Fast only where each tag stands once, which is checked first.
_BOTH = re.compile(r"<think>\n.*\n</think>\n<answer>\n.*\n</answer>\n?", re.DOTALL)
_ANSWER = re.compile(r"<answer>\n.*\n</answer>\n?", re.DOTALL)

Span = tuple[int, int]


def hard_format(text: str, strict: bool = False) -> float:
    """0.5 where a think block stands before the answer block, 0.25 with the answer block alone, else 0.

    New lines around the tags, and text before, between and after the blocks, make no difference. The answer block is
    the last one (see `answer_block`). Empty blocks earn as well: what they should hold is for `correctness` to say.

    `strict`: the text must be `<think>\\n…\\n</think>\\n<answer>\\n…\\n</answer>`, or its second half for 0.25, and
    nothing else but one new line at the end; each tag once. Never more than without `strict`.
    """
    if strict:
        return _strict_format(text)
    thoughts, answers = _blocks(text)
    if not answers:
        return 0.0
    return 0.5 if thoughts and thoughts[0][1] <= answers[-1][0] else 0.25


def mark(text: str, strict: bool = False) -> float:
    """0.125 for each of the four TAGS that stands anywhere in the text: once is enough, more earn no more.

    `strict`: only tags that are a line of their own count, so there is a new line (or an end of the text) on both
    sides. Never more than without `strict`, and never less than `hard_format` of the same strictness.
    """
    standing = set(_OWN_LINE.findall(text)) if strict else {tag for tag in TAGS if tag in text}
    return 0.125 * len(standing)


def answer_block(text: str) -> str | None:
    """What stands in the answer block, without the blanks around it; "" where it is empty, None where there is none.

    The last block counts, as the last word does: a text that gives many answers is judged by one. Not one that begins
    in a think block.
    """
    _, answers = _blocks(text)
    if not answers:
        return None
    start, end = answers[-1]
    return text[start:end].strip()


def _strict_format(text: str) -> float:
    tags = tuple(tag[0] for tag in _TAG.finditer(text))
    if tags == TAGS and _BOTH.fullmatch(text):
        return 0.5
    return 0.25 if tags == TAGS[2:] and _ANSWER.fullmatch(text) else 0.0


def _blocks(text: str) -> tuple[list[Span], list[Span]]:
    """Where the insides of the think blocks and of the answer blocks begin and end, both in the order of the text."""
    thoughts: list[Span] = []
    answers: list[Span] = []
    opened: dict[str, int] = {}  # where the insides of the blocks that are not closed yet begin
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
