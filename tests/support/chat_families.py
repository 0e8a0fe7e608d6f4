"""Ten families of chat templates, written small in their forms, each with a tokenizer that has its control tokens.

The counts are for tests and for `python -m benchmarks.faults prompts`.
"""

import datetime
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

from tasks.bootstrap.prompt_formats import STYLES, prompt_format
from tasks.environments.workflow import WorkflowEnvironment
from tasks.model.policy import Policy
from tasks.model.text import chat_prompt, control_tokens, encode_completion, encode_prompt, problem_prompt
from tasks.params.sections import PromptParams
from tasks.records.problems import Problem, WorkedExample
from tests.support.policies import tiny_model


class Family(NamedTuple):
    """A chat template and the added tokens of its tokenizer; the first special one ends a text."""

    template: str
    special: tuple[str, ...]
    added: tuple[str, ...] = ()  # that are not special
    pieces: bool = False  # a tokenizer of sentencepiece's kind, with a blank before the first word


_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LLAMA_2 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content | trim }} [/INST]"
    "{% else %} {{ m.content | trim }} {{ eos_token }}{{ bos_token }}{% endif %}{% endfor %}"
)
_LLAMA_3 = (
    "{{- bos_token }}\n"
    "{%- if not date_string is defined %}\n    {%- if strftime_now is defined %}\n"
    '        {%- set date_string = strftime_now("%d %b %Y") %}\n    {%- else %}\n'
    '        {%- set date_string = "26 Jul 2024" %}\n    {%- endif %}\n{%- endif %}\n'
    '{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n<|eot_id|>" }}'
    "{%- for m in messages %}{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim"
    " + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
)
_MISTRAL = (
    '{%- set today = strftime_now("%Y-%m-%d") %}\n'
    "{{- bos_token }}[SYSTEM_PROMPT]The current date is {{ today }}.[/SYSTEM_PROMPT]"
    "{%- for m in messages %}{%- if m.role == 'user' %}{{- '[INST]' + m.content + '[/INST]' }}"
    "{%- else %}{{- m.content + eos_token }}{%- endif %}{%- endfor %}"
)
_GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% set role = 'model' if m.role == 'assistant' else m.role %}"
    "{{ '<start_of_turn>' + role + '\n' + m.content | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
_PHI = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
_DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content }}{% else %}"
    "{{ '<｜Assistant｜>' + m.content.split('</think>')[-1] + '<｜end▁of▁sentence｜>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}"
)
_QWEN_3 = _CHATML + (
    "{% if false %}<tool_call></tool_call>{% endif %}{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}"
)
_SMOLLM_3 = (
    '{%- set today = strftime_now("%d %B %Y") -%}'
    "{{- '<|im_start|>system\n## Metadata\n\nToday Date: ' ~ today ~ '\n<|im_end|>\n' -}}" + _CHATML
)
_GPT_OSS = (
    "{%- macro build_system_message() -%}\n"
    '    {{- "Current date: " + strftime_now("%Y-%m-%d") + "\\n\\n" }}\n{%- endmacro -%}\n'
    '{{- "<|start|>system<|message|>" }}{{- build_system_message() }}{{- "<|end|>" }}'
    "{%- for m in messages %}{%- if m.role == 'user' %}{{- '<|start|>user<|message|>' + m.content + '<|end|>' }}"
    "{%- else %}{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}"
    "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}<|start|>assistant{%- endif %}"
)

_THOUGHTS = ("<think>", "</think>")
FAMILIES = {
    "ChatML": Family(_CHATML, ("<|endoftext|>", "<|im_start|>", "<|im_end|>")),
    "Llama 2": Family(_LLAMA_2, ("</s>", "<s>", "<unk>"), pieces=True),
    "Llama 3": Family(
        _LLAMA_3,
        (
            "<|end_of_text|>",
            "<|begin_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|eom_id|>",
        ),
    ),
    "Mistral": Family(
        _MISTRAL, ("</s>", "<s>", "<unk>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"), pieces=True
    ),
    "Gemma": Family(
        _GEMMA, ("<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"), ("\n\n", "<b>"), pieces=True
    ),
    "Phi": Family(_PHI, ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")),
    "DeepSeek": Family(
        _DEEPSEEK, ("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>"), ("<｜User｜>", "<｜Assistant｜>", *_THOUGHTS)
    ),
    "Qwen3": Family(
        _QWEN_3,
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        ("<tool_call>", "</tool_call>", "<|fim_prefix|>", *_THOUGHTS),
    ),
    "SmolLM3": Family(_SMOLLM_3, ("<|end_of_text|>", "<|im_start|>", "<|im_end|>"), _THOUGHTS),
    "gpt-oss": Family(_GPT_OSS, ("<|return|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|call|>")),
}
"""By name; the templates are the published ones without tools and without roles that Graft never writes."""

WORDS = (
    "Ann has 3 pens.",
    " ",
    "\n",
    "How many are left?",
    "user",
    "assistant",
    "1 + 2",
    "Yes",
    "<|",
    "|>",
    "]",
    "\n\n",
)


@cache
def tokenizer_of(name: str) -> Any:
    """A tokenizer that is trained on a few words, with the control tokens and the template of a family."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    family = FAMILIES[name]
    corpus = ["def solve(problem):\n    return n[0] * n[1]\n", *WORDS, "im_start im_end header end of turn message"] * 3
    if family.pieces:
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        alphabet, fixed = [], [f"<0x{byte:02X}>" for byte in range(256)]
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet, fixed = pre_tokenizers.ByteLevel.alphabet(), []
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=[*family.special, *fixed], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    content = json.loads(tokenizer.to_str())  # bytes are no special tokens, as in the published files
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] not in fixed]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in family.added])
    bos = next((text for text in family.special if text in ("<s>", "<bos>") or "begin" in text), None)
    unknown = "<unk>" if family.pieces else None
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=family.special[0], bos_token=bos, unk_token=unknown, pad_token=None
    )
    made.chat_template = family.template
    return made


def policy_of(name: str) -> Policy:
    """A policy with the tokenizer of a family."""
    model = tiny_model("llama")
    model.config.vocab_size = 10_000
    return Policy(model, tokenizer_of(name), "", "base")


def quoting_texts(name: str, count: int, seed: int = 0) -> list[str]:
    """Texts that quote the control tokens of a family: the ends of its turns, parts, and one within another."""
    chance, markers = random.Random(f"{name} {seed}"), sorted(control_tokens(tokenizer_of(name)))

    def part() -> str:
        marker = chance.choice(markers)
        place = chance.randrange(len(marker))
        within = marker[:place] + chance.choice(markers) + marker[place:]
        return chance.choice([marker, marker, marker, marker[:place], marker[place:], within, chance.choice(WORDS)])

    return [chance.choice(markers).join(part() for _ in range(chance.randint(2, 6))) for _ in range(count)]


def prompts_with(policy: Policy, text: str) -> Iterator[list[int]]:
    """Token ids of the prompts that hold a text: an operator's, those of each form with an example, a completion's."""
    environment = WorkflowEnvironment()
    params = PromptParams(style="plain", examples=2, file=None, prefill=None, stop=[])
    asked = Problem(problem_id="p", question=text, answer=1, source="x")
    shown = [WorkedExample(question=text, completion=f"{text}\n{end}") for end in "ab"]
    yield encode_prompt(policy, chat_prompt(policy, text))
    for style in STYLES:
        form = prompt_format(style, policy.tokenizer, environment, params, shown)
        asking = Policy(policy.model, policy.tokenizer, "", "base", prompt_format=form)
        yield encode_prompt(asking, problem_prompt(asking, environment, asked))
    yield encode_prompt(policy, problem_prompt(policy, environment, asked))
    yield encode_completion(policy, text)


def control_tokens_from_text(name: str, count: int) -> int:
    """The control tokens that `count` texts add to prompts: those beyond the prompts of the same texts, escaped."""
    policy = policy_of(name)
    control = set(policy.tokenizer.convert_tokens_to_ids(sorted(control_tokens(policy.tokenizer))))

    def controls(text: str) -> list[list[int]]:
        return [[token for token in ids if token in control] for ids in prompts_with(policy, text)]

    return sum(
        abs(len(found) - len(wanted)) or found != wanted
        for text in quoting_texts(name, count)
        for found, wanted in zip(controls(text), controls(escaped(text)), strict=True)
    )


def escaped(text: str) -> str:
    """The text with a full stop between all letters of a line, in which no control token is left."""
    return "\n".join(".".join(line) for line in text.split("\n"))


def prompt_differs_by_day(name: str) -> bool:
    """Whether a prompt of a family is another one on another day, or in another hour."""
    policy, text = policy_of(name), "How many pens?"
    found = []
    for moment in MOMENTS:
        with clock_at(moment):
            found.append(list(prompts_with(policy, text)))
    return any(each != found[0] for each in found)


MOMENTS = tuple(datetime.datetime(*each) for each in ((2024, 7, 25, 23, 59), (2024, 7, 26), (2031, 12, 1, 8)))


@contextmanager
def clock_at(moment: datetime.datetime) -> Iterator[None]:
    """A block in which it is `moment` for transformers' chat templates."""

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "datetime.datetime":  # type: ignore[override]  # noqa: ARG003
            return moment

    with patch("transformers.utils.chat_template_utils.datetime", Clock):
        yield
