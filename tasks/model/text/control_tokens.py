"""Control tokens that a text quotes, such as `<|im_end|>`: they are encoded as the text that they are.

`quote` marks them, as transformers does for `apply_chat_template(…, sanitize_control_tokens=True)`, so that a prompt
stays one string, and only the control tokens that its form or its chat template writes are control tokens.
"""

import re
from functools import lru_cache
from typing import Any

START, END = "\U000f0000", "\U000f0001"
"""transformers' own marks, around a control token that is text; both are private-use characters."""

THOUGHTS = ("<think>", "</think>")
"""Text and token alike: environments ask for these tags, and policies write them as tokens."""

_BARRED = re.compile(r"<[|｜].+[|｜]>")
_QUOTED = re.compile(f"{START}([^{START}{END}]*){END}")


def quote(tokenizer: Any, text: str) -> str:
    """`text` with marks around the control tokens in it; others' marks are removed."""
    from transformers.utils.chat_template_utils import mark_control_tokens

    known = sorted(control_tokens(tokenizer), key=len, reverse=True)  # a token before those that it contains
    return str(mark_control_tokens(text, re.compile("|".join(map(re.escape, known)) or "(?!)")))


def control_tokens(tokenizer: Any) -> set[str]:
    """Special tokens, and other added ones in bars or of the chat template, but for the tags of thoughts."""
    template = tokenizer.chat_template
    written = "\0".join(map(_literals, map(str, template.values() if isinstance(template, dict) else [template])))
    added = {token.content: token.special for token in tokenizer.added_tokens_decoder.values()}
    tokens = {text for text, special in added.items() if special or text in written or _BARRED.fullmatch(text)}
    return {text for text in tokens.difference(THOUGHTS) if not text.isspace()}  # Gemma has tokens of line breaks


@lru_cache
def _literals(template: str) -> str:
    """The text and the string constants of a chat template, of which it may write all; "" where it cannot be read."""
    from jinja2 import Environment, TemplateSyntaxError

    try:
        parts = [value for _, kind, value in Environment().lex(template) if kind in ("data", "string")]
    except TemplateSyntaxError:  # it is named where a chat is rendered
        return ""
    return "\0".join(parts)


def encode(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text whose quoted control tokens are marked; without any they are the tokenizer's own."""
    if START not in text:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    try:
        encoded = tokenizer(text, add_special_tokens=False, sanitize_control_tokens=True)
    except ValueError:  # a Unigram has the control token in its vocabulary: letter by letter, as a mark ends a word
        spelled = _QUOTED.sub(lambda match: START.join(match[1]), text)
        encoded = tokenizer(spelled, add_special_tokens=False, sanitize_control_tokens=True)
    return list(encoded["input_ids"])


def until_quoted(text: str) -> str:
    """A text up to its first quoted control token."""
    return text.partition(START)[0]


def readable(text: str) -> str:
    """A text without the marks."""
    return text.replace(START, "").replace(END, "")
