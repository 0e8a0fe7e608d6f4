"""Law: the text of a completion is the text of prompt and completion less that of the prompt, whatever the tokenizer.

The tokenizers have the decoders of the families in use: byte-level BPE, Llama's BPE of pieces with a blank before the
first word, and Unigram of pieces.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.model.policy import Policy
from tasks.model.text import completion_text, decode, encode_completion, encode_prompt, is_truncated
from tasks.records.policy import PromptFormat
from tests.support.policies import tiny_model

CORPUS = [
    "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n",
    "The answer is 42, of course.\n\n  1 + 2 = 3\n",
    "Problem: Ann has 3 pens.\n",
] * 3


@cache
def byte_level() -> Any:
    return train_tokenizer(CORPUS, 400)


def llama(prepend: str = "first") -> Callable[[], Any]:
    """Llama 2's: a blank is a letter, other bytes are tokens, the decoder drops one blank at the beginning."""

    @cache
    def made() -> Any:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        from transformers import PreTrainedTokenizerFast

        special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
        tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend, split=False)
        corpus = [line for text in CORPUS for line in text.split("\n")]  # a line break is a byte
        trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=special, show_progress=False)
        tokenizer.train_from_iterator(corpus, trainer)
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                *([decoders.Strip(" ", 1, 0)] if prepend != "never" else []),
            ]
        )
        plain = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>", clean_up_tokenization_spaces=False
        )
        return _with_bytes_as_text(plain)

    return made


def _with_bytes_as_text(tokenizer: Any) -> Any:
    """Byte tokens are not special, as in the published files."""
    import json

    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if not token["content"].startswith("<0x")]
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(content)),
        eos_token="</s>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )


@cache
def unigram() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    letters = [chr(code) for code in range(33, 127)] + ["\n", "▁"]
    trainer = trainers.UnigramTrainer(
        vocab_size=300,
        special_tokens=["<unk>", "</s>"],
        unk_token="<unk>",
        initial_alphabet=letters,
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", unk_token="<unk>")


KINDS: dict[str, Callable[[], Any]] = {
    "byte-level BPE": byte_level,
    "Llama 2": llama(),
    "Llama 2, legacy": llama("always"),
    "Mistral, no blank in front": llama("never"),
    "Unigram": unigram,
}
PROMPT = "Problem: Ann has 3 pens.\n"
PIECES = [" ", "    ", "\n", "def", "return ", " 42", "n[0]", "solve", "  1 + 2", "x", ", of course"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


def policy_with(kind: str, form: PromptFormat | None = None) -> Policy:
    model = tiny_model("llama")
    model.config.vocab_size = 600
    return Policy(model, KINDS[kind](), "", "base", prompt_format=form)


def form(style: str, prefill: str = "") -> PromptFormat:
    return PromptFormat(style=style, examples=0, instructions=True, before="", after="", prefill=prefill, stop=[])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.lists(st.integers(min_value=0), max_size=12))
def test_any_tokens_after_a_prompt_add_their_text(kind: str, seed: list[int]) -> None:
    policy = policy_with(kind)
    prompt = encode_prompt(policy, PROMPT)
    tokens = [number % len(policy.tokenizer) for number in seed]
    before, whole = (
        policy.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        for ids in (prompt, prompt + tokens)
    )
    if tokens and tokens[-1] in policy.end_tokens:
        tokens = tokens[:-1]
    if whole.startswith(before) and "\ufffd" not in whole:  # bytes that are no text swallow those before them
        assert before + decode(policy, tokens) == whole


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS)
def test_a_text_is_encoded_to_tokens_that_decode_to_it(kind: str, text: str) -> None:
    policy = policy_with(kind)
    tokens = encode_completion(policy, text)
    assert tokens[-1] == policy.tokenizer.eos_token_id
    if "Unigram" in kind and "\n" in text:
        return  # it has no blank after a line break that is its own
    assert decode(policy, tokens) == text


@pytest.mark.parametrize("kind", KINDS)
def test_the_indentation_of_a_continued_function_is_kept(kind: str) -> None:
    policy, body = policy_with(kind, form("raw")), "    n = numbers(problem)"
    prompt = encode_prompt(policy, "def solve(problem):\n")
    whole = encode_prompt(policy, f"def solve(problem):\n{body}")
    if whole[: len(prompt)] == prompt:
        assert completion_text(policy, whole[len(prompt) :]) == body
    tokens = encode_completion(policy, body)
    assert completion_text(policy, tokens) == body
    assert is_truncated(policy, tokens[:-1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_begins_without_the_blank_of_its_first_word(kind: str) -> None:
    policy = policy_with(kind, form("chat"))
    for text, message in ((" def", "def"), ("    return", "    return"), ("def", "def")):
        assert completion_text(policy, encode_completion(policy, text)) == message
    policy.prompt_format = form("chat", prefill="is")
    assert completion_text(policy, encode_completion(policy, " 42")) == "is 42"
