"""A policy's prompts and completions: as text, as its environment writes and reads them, and as token ids.

Control tokens that a text quotes, such as `<|im_end|>`, are encoded as the text that they are. `quote` marks them, as
transformers does for `apply_chat_template(…, sanitize_control_tokens=True)`: a prompt stays one string, in which only
those are control tokens that its form or its chat template writes.
"""

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from tasks.environments.prompts import cut_at_stop, prompt_of
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import fix_date
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.policy import Policy
from tasks.records.problems import Problem

START, END = "\U000f0000", "\U000f0001"
"""transformers' own marks, around a control token that is text; both are private-use characters."""

THOUGHTS = ("<think>", "</think>")
"""Text and token alike: environments ask for these tags, and policies write them as tokens."""

_BARRED = re.compile(r"<[|｜].+[|｜]>")
_QUOTED = re.compile(f"{START}([^{START}{END}]*){END}")

LONGEST = 1_000_000
"""Characters of a prompt."""

_PROBLEM = "policy.base: its chat template"
_REMEDY = "correct chat_template, or set policy.prompt.style to plain"


def encode_prompt(policy: Policy, text: str) -> list[int]:
    """Token ids of a prompt of `problem_prompt` or `chat_prompt`. Raises GraftError if the model lacks one of them."""
    ids = encode(policy.tokenizer, text)
    if ids and (last := max(ids)) >= policy.vocabulary:
        token = policy.tokenizer.convert_ids_to_tokens(last)
        raise GraftError(
            f"policy.base: a prompt contains {token!r}, which is token {last} of a model with {policy.vocabulary} "
            "embeddings; resize its embeddings, or take the token out of its chat template and of the problems"
        )
    return ids


def problem_prompt(policy: Policy, environment: Environment, problem: Problem, served: bool = False) -> str:
    """The prompt of a problem in the policy's form; control tokens that the problem quotes are marked as text."""
    as_text = partial(quote, policy.tokenizer)
    return prompt_of(environment, policy.prompt_format, problem, policy.base, served, as_text)


def chat_prompt(policy: Policy, message: str) -> str:
    """The prompt of a user's message, in the chat template if there is one; control tokens in it are marked as text."""
    message = quote(policy.tokenizer, message)
    if not policy.tokenizer.chat_template:
        return message
    return render_chat(policy.tokenizer, [{"role": "user", "content": message}])


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


def encode_completion(policy: Policy, text: str) -> list[int]:
    """Token ids of a completion whose text is known, in which control tokens are text; the end-of-text token follows.

    A prefilled beginning is left out: as much of the text as the prompt ends with.
    """
    prefill = policy.prompt_format.prefill if policy.prompt_format else ""
    common = next((n for n in range(min(len(prefill), len(text)), 0, -1) if prefill.endswith(text[:n])), 0)
    return [*_encode_continuation(policy, text[common:]), policy.tokenizer.eos_token_id]


def _encode_continuation(policy: Policy, text: str) -> list[int]:
    """Token ids that decode to `text`: those after a line break where the tokenizer begins a text with a blank."""
    quoted = quote(policy.tokenizer, text)
    line, lined, ids = (encode(policy.tokenizer, piece) for piece in ("\n", f"\n{quoted}", quoted))
    after = lined[len(line) :] if lined[: len(line)] == line else ids
    return after if decode(policy, after) == text != decode(policy, ids) else ids


def decode(policy: Policy, tokens: Sequence[int]) -> str:
    """The text of tokens that follow others, without special tokens and the end token: the text of all, less theirs."""
    kept = list(tokens[:-1] if tokens and tokens[-1] in policy.end_tokens else tokens)
    ids, word = policy.word
    text = policy.text_of([*ids, *kept])
    return text.removeprefix(word) if text.startswith(word) else policy.text_of(kept)


def completion_text(policy: Policy, tokens: Sequence[int]) -> str:
    """The text of a completion: the prefilled beginning, then the tokens' text up to a stop string.

    A message of a chat begins without the one blank that tokenizers put before its first word.
    """
    text, form = decode(policy, tokens), policy.prompt_format
    if form is None:
        return text
    text = cut_at_stop(text, form.stop)
    message = form.style in ("chat", "turns") and not form.prefill
    return form.prefill + (text[1:] if message and text[:1] == " " != text[1:2] else text)


def is_truncated(policy: Policy, tokens: Sequence[int]) -> bool:
    """Whether a completion was cut at its length limit: it ends with no end token and has no stop string."""
    if not tokens or tokens[-1] in policy.end_tokens:
        return False
    text = decode(policy, tokens)
    return cut_at_stop(text, policy.stop) == text


def count_before_stop(policy: Policy, tokens: Sequence[int]) -> int:
    """The number of tokens that begin before a stop string: those that are learnt."""
    if not policy.stop or tokens[-1] in policy.end_tokens:
        return len(tokens)
    kept = len(cut_at_stop(decode(policy, tokens), policy.stop))
    return next((n for n in range(len(tokens)) if len(decode(policy, tokens[:n])) >= kept), len(tokens)) or 1


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
