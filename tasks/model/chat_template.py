"""The prompt of a chat, by the template that comes with a tokenizer."""

from collections.abc import Sequence
from typing import Any

from tasks.errors import GraftError
from tasks.model.load_errors import translate_errors

LONGEST = 1_000_000
"""Characters of a prompt."""

_PROBLEM = "policy.base: its chat template"
_REMEDY = "correct chat_template, or set policy.prompt.style to plain"


def render_chat(tokenizer: Any, messages: Sequence[dict[str, str]]) -> str:
    """The messages and the beginning of the answer, as text. Raises GraftError if the template cannot write them.

    Each message has to be in it as it is, once, in order.
    """
    with translate_errors(f"{_PROBLEM} fails", _REMEDY):
        text = tokenizer.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False)
    if not isinstance(text, str) or len(text) > LONGEST:
        raise GraftError(
            f"{_PROBLEM} gives {'no text' if not isinstance(text, str) else 'over 10^6 letters'}; {_REMEDY}"
        )
    end = 0
    for message in messages:
        place = text.find(message["content"].strip(), end)
        if place < 0:
            raise GraftError(f"{_PROBLEM} leaves out the message of a {message['role']}; {_REMEDY}")
        end = place + len(message["content"].strip())
    return text
