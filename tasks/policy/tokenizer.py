"""The embedded default's tokenizer: byte-level BPE, digits one by one, trained on the run's own text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, EOS = "<|pad|>", "<|end|>"

# A piece never crosses these borders. Code breaks at whole statement parts, so that a statement
# `    a = n[0] * n[1]` takes seven tokens and the header, which every workflow shares, takes one.
PIECES = "|".join(
    [
        r"def solve\(problem\):\n    n = numbers\(problem\)\n",
        r"    [a-z] =",
        r"    return",
        r" n\[",
        r"\] [-+*/]",
        r"\]\n",
        r" ?[A-Za-z]+",
        r"\d",
        r" ?[^\sA-Za-z\d]+",
        r"\s",
    ]
)


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> "PreTrainedTokenizerFast":
    """Byte-level BPE with at most `vocabulary` tokens; any text can be encoded and decoded without loss."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
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
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, clean_up_tokenization_spaces=False
    )
