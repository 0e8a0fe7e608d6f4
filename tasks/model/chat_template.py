"""The prompt of a chat, by the template that comes with a tokenizer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tasks.errors import GraftError
from tasks.model.load_errors import translate_errors

LONGEST = 1_000_000
"""Characters of a prompt."""

DATE = datetime(2024, 7, 26)  # of no time zone, as transformers' own
"""The date that templates print; Llama's print it where they know none."""

_DIRECTIVES = ("-d", "-e", "-H", "-I", "-j", "-m", "-M", "-S", "-y", *"aAbBcCdDeFgGhHIjklmMpPrRSTuUVwWxXyYzZ")
_CLOCK = "strftime_now"
_MACRO = f"{{% macro {_CLOCK}(format) %}}"

_PROBLEM = "policy.base: its chat template"
_REMEDY = "correct chat_template, or set policy.prompt.style to plain"


def render_chat(tokenizer: Any, messages: Sequence[dict[str, str]]) -> str:
    """The messages and the beginning of the answer, as text. Raises GraftError if the template cannot write them.

    Each message has to be in it as it is, once, in order.
    """
    with translate_errors(f"{_PROBLEM} fails", _REMEDY):
        template = fix_date(tokenizer.get_chat_template())
        text = tokenizer.apply_chat_template(
            list(messages), chat_template=template, add_generation_prompt=True, tokenize=False
        )
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


def fix_date(template: Any) -> Any:
    """A chat template, or templates by name, in which `strftime_now` gives DATE; as it is where it asks for no date.

    A template that has been fixed keeps its date. The function is a macro in the template itself, as transformers lets
    nobody pass another, and so that the date stays with a tokenizer that is saved.
    """
    if isinstance(template, dict):
        return {name: fix_date(each) for name, each in template.items()}
    if not isinstance(template, str) or _CLOCK not in template or _MACRO in template:
        return template
    parts = "".join(f"|replace('%{each}', '{DATE.strftime(f'%{each}')}')" for each in _DIRECTIVES)
    return f"{_MACRO}{{{{ format{parts} }}}}{{% endmacro %}}\n{template}"
