"""Byte-level BPE tokenizer of `policy.base: scratch`, trained on the run's own text; digits are single tokens.

Its pre-tokenizer is Qwen2's, because for a Qwen2 `config.json` `AutoTokenizer` (transformers 5) silently replaces that
of `tokenizer.json` by Qwen2's: with any other, a reloaded policy would tokenise its prompts differently.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.programs.contract import PARTS

if TYPE_CHECKING:
    from tokenizers.pre_tokenizers import PreTokenizer
    from transformers import PreTrainedTokenizerBase

PAD, EOS = "<|pad|>", "<|endoftext|>"  # Qwen2Tokenizer adds an <|endoftext|> of its own where it finds none


def train_tokenizer(texts: Sequence[str], vocabulary: int, parts: Sequence[str] = PARTS) -> "PreTrainedTokenizerBase":
    """Byte-level BPE with at most `vocabulary` tokens, and `parts` as additional tokens.

    It is lossless except that letters with combining accents are composed (NFC), as in Qwen2's tokenizer.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()  # as AutoTokenizer does
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [_splitter(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in parts])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, clean_up_tokenization_spaces=False
    )


def fewest_tokens(text: str) -> int:
    """Number of words, digits and signs of a text without workflows: `train_tokenizer` has as many tokens or more."""
    return len(_splitter().pre_tokenize_str(text))


def _splitter() -> "PreTokenizer":
    from tokenizers import Regex, pre_tokenizers
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

    return pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")
