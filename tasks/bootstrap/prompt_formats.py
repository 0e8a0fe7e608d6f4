"""Forms of the prompts of a base: chat message, chat turns or plain text, with worked examples."""

import re
from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

from tasks.environments.prompts import SCRATCH
from tasks.environments.protocol import Environment
from tasks.model.text import quote, render_chat, until_quoted
from tasks.params.sections import PromptParams
from tasks.records.policy import PromptFormat, PromptStyle
from tasks.records.problems import WorkedExample

STYLES: tuple[PromptStyle, ...] = ("plain", "turns", "chat")
"""Those that `auto` tries; raw is for models that were trained on the environment's questions."""

QUESTION = "\x1aquestion\x1a"
"""Stands for the question while a chat template is rendered; no template changes it.

The texts of worked examples have such signs too: templates delete thoughts from earlier turns.
"""

_THOUGHTS = re.compile(r"<think>(?:(?!</think>).)*\Z", re.DOTALL)


def prompt_format(
    style: PromptStyle,
    tokenizer: Any,
    environment: Environment,
    params: PromptParams,
    examples: Sequence[WorkedExample],
    taught: Sequence[str] = (),
) -> PromptFormat:
    """The form of a style with these examples; `chat` and `turns` need a tokenizer with a chat template.

    Instructions are part of a chat message, and of every prompt without examples; else the examples take their place,
    or completions that are `taught` in a warm start.
    Thoughts that a template opens for the answer are the beginning of the completion, as if it had written the tag.
    Control tokens that the examples quote are marked as text; those of a prefill of the user's own are control tokens.
    """
    pairs = [
        (quote(tokenizer, environment.prompt(e.question, SCRATCH)), quote(tokenizer, e.completion)) for e in examples
    ]
    completions = [completion for _, completion in pairs] or [quote(tokenizer, text) for text in dict.fromkeys(taught)]
    common = common_beginning([*map(until_quoted, completions)])
    prefill = common if params.prefill is None else params.prefill
    begin = tokenizer.bos_token if _adds_bos(tokenizer) else ""
    if style == "raw":
        before, after = begin, ""
    elif style == "plain":
        end = tokenizer.eos_token
        shown = "".join(f"Problem: {asked}{completion}{end}\n\n" for asked, completion in pairs)
        before, after = f"{begin}{shown}Problem: ", ""
    else:
        before, after = _chat(tokenizer, pairs if style == "turns" else [])
        if style == "chat":
            before += "".join(f"Problem: {asked}{completion}\n\n" for asked, completion in pairs)
        if opened := _THOUGHTS.search(after):
            after = after[: opened.start()]
            prefill = opened[0] + (_within_thoughts(prefill) if params.prefill is None else prefill)
    return PromptFormat(
        style=style,
        examples=len(examples),
        instructions=style == "chat" or not (examples or taught),
        before=before,
        after=after,
        prefill=prefill,
        stop=list(params.stop),
    )


def render_question(tokenizer: Any) -> None:
    """Raises GraftError if the chat template of a tokenizer cannot write a question, or a question after an answer."""
    for pairs in ([], [("1 + 1?", "<think>\n1 + 1 = 2\n</think>\n2")]):
        _chat(tokenizer, pairs)


def _chat(tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The text of a chat before and after its question, with these pairs of messages as earlier turns."""
    texts = [text for pair in pairs for text in pair]
    signs = [f"\x1a{number}\x1a" for number in range(len(texts))]
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": sign} for number, sign in enumerate([*signs, QUESTION])]
    before, _, after = render_chat(tokenizer, messages).partition(QUESTION)
    for sign, text in zip(signs, texts, strict=True):
        before = before.replace(sign, text)
    return before, after


def _within_thoughts(beginning: str) -> str:
    """What is left of the examples' common beginning where thoughts are open: nothing, unless that opens them too."""
    return beginning.removeprefix("<think>").lstrip("\n") if beginning.startswith("<think>") else ""


def common_beginning(texts: Sequence[str]) -> str:
    """The lines that all texts begin with, without the last newline: tokenizers join it with the next line's blanks."""
    if len(texts) < 2:
        return ""
    return commonprefix(texts).rpartition("\n")[0].rstrip()  # noqa: RUF071 (texts, no paths)


def _adds_bos(tokenizer: Any) -> bool:
    ids = tokenizer("1")["input_ids"]
    return tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]
