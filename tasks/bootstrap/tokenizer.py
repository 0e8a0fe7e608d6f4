"""The embedded default's tokenizer: byte-level BPE, digits one by one, trained on the run's own text.

It cuts text into pieces as Qwen2's tokenizer does. That is not a matter of taste: for a Qwen2 `config.json`,
`AutoTokenizer` (transformers 5) puts Qwen2's own pre-tokenizer in the place of whatever `tokenizer.json` says, without
a word, and the reloaded policy reads its prompts in other tokens than it was trained on.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.programs.contract import PARTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PAD, EOS = "<|pad|>", "<|endoftext|>"  # Qwen2Tokenizer adds an <|endoftext|> of its own where it finds none

# Qwen2's pre-tokenizer (transformers, models/qwen2/tokenization_qwen2.py, PRETOKENIZE_REGEX).
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts: Sequence[str], vocabulary: int, parts: Sequence[str] = PARTS) -> "PreTrainedTokenizerBase":
    """Byte-level BPE with at most `vocabulary` tokens, and `parts` as one token each beside them.

    No text is lost in it, but that letters with separate accents are composed (NFC), as Qwen2's tokenizer does.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()  # AutoTokenizer puts it there too
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
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
