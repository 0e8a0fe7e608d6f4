"""A sequence-classification model as a term of the reward.

Its input is the question and the completion as a pair or, if the tokenizer has a chat template, as a message and its
reply; with `rewards.model.alone` the completion alone. With one label the term is the sigmoid of the logit; with
several the softmax probability of `rewards.model.label`, or the sigmoid of its logit for a multi-label model
(`problem_type: multi_label_classification`); at most `rewards.model.cap`.

In a pair beyond the model's limit the longer text is truncated, token by token; a chat is truncated at its end. Each
distinct pair is evaluated once, in float32 on CPU and in the checkpoint's dtype on an accelerator.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.sharding import shards_of
from tasks.errors import GraftError
from tasks.model.chat_template import fix_date
from tasks.model.device import device_of
from tasks.model.foreign_files import check_weight_files, is_trusted, named
from tasks.model.load_errors import error_reason, translate_errors
from tasks.model.policy import LOAD_LOCK
from tasks.params.sections import ModelReward
from tasks.reward.weighted_sum import TermColumn, TermValue
from tasks.trajectories import Trajectory

if TYPE_CHECKING:
    from torch import Tensor

UNLIMITED = 2**31
"""transformers uses 10^30 for a tokenizer without a limit."""

Pair = tuple[str | None, str]
"""A question, or None if it is not read, and a completion."""

Tokens = Mapping[str, Sequence[int]]
"""The tokenizer's output for one pair: `input_ids` and parallel lists."""


def classifier_column(root: Path, params: ModelReward, trajectories: Sequence[Trajectory]) -> list[TermColumn]:
    """The term for each completion [P, G]; `failed` where a pair has no tokens or its logits are not finite.

    Raises GraftError if `params.base` is no such model or has no such label.
    """
    groups: list[list[Pair]] = [
        [(None if params.alone else each.problem.question, member.code) for member in each.members]
        for each in trajectories
    ]
    distinct = list(dict.fromkeys(pair for group in groups for pair in group))
    values = dict(zip(distinct, classifier_values(root, params, distinct), strict=True))
    return [[_measured(values[pair]) for pair in group] for group in groups]


def classifier_values(root: Path, params: ModelReward, pairs: Sequence[Pair]) -> list[float]:
    """The term of each pair [N], NaN without tokens or finite logits; independent of `params.batch`.

    All pairs have a question, or none has.
    """
    base = str(root / params.base) if (root / params.base).is_dir() else params.base
    with (
        LOAD_LOCK,
        _one_line_errors(f"rewards.model: {params.base!r} is no sequence-classification model with a tokenizer"),
    ):
        model, tokenizer = _model(base, params.base), _tokenizer(base, params.base)
    label = label_index(params.base, model.config, params.label)
    values = [math.nan] * len(pairs)
    with _one_line_errors(f"rewards.model: {params.base!r} could not read the completions"):
        config = model.config.get_text_config()
        rows = _encoded(config, tokenizer, pairs) if pairs else []
        _refuse_unknown_tokens(config, rows)
        if config.pad_token_id is None:
            config.pad_token_id = _unused_token(config, tokenizer, rows)
        size = params.batch if config.pad_token_id is not None else 1
        lengths = [len(row["input_ids"]) for row in rows]
        read = [place for place, length in enumerate(lengths) if length]  # padding alone would have a value, too
        longest_first = sorted(read, key=lambda place: -lengths[place])  # little padding
        for places in shards_of(longest_first, size):
            logits = _logits(model, [rows[place] for place in places])
            for place, of_one in zip(places, logits, strict=True):
                values[place] = probability(of_one, label, getattr(model.config, "problem_type", None))
    return [value if math.isnan(value) else min(value, params.cap) for value in values]


def probability(logits: "Tensor", label: int, problem_type: str | None) -> float:
    """Sigmoid or softmax (see above) of the logits [labels] at `label`, in float64."""
    import torch

    wide = logits.double()
    alone = len(logits) == 1 or problem_type == "multi_label_classification"
    return float((torch.sigmoid(wide) if alone else torch.softmax(wide, dim=0))[label])


def label_index(base: str, config: Any, label: str | int | None) -> int:
    """Index of the label. Raises GraftError that lists the model's labels."""
    names: dict[int, str] = {place: str(config.id2label[place]) for place in sorted(config.id2label)}
    if label is None and len(names) == 1:
        return 0
    if isinstance(label, int) and label in names:
        return label
    found: list[int] = [place for place, name in names.items() if name == label]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{name} ({place})" for place, name in names.items())
    given = "null" if label is None else repr(label)
    raise GraftError(
        f"rewards.model: {base!r} has {len(names)} labels, and label is {given}; set rewards.model.label to one of "
        f"{known}"
    )


def _measured(value: float) -> TermValue:
    if math.isfinite(value):
        return TermValue(value)
    return TermValue(None, "failed", "the model's logits are not finite, or its tokenizer has no token for the text")


def _model(base: str, named: str) -> Any:
    import torch
    from transformers import AutoModelForSequenceClassification

    device = device_of(base)
    check_weight_files(base)
    model, found = AutoModelForSequenceClassification.from_pretrained(
        base,
        dtype=torch.float32 if device == "cpu" else "auto",
        use_safetensors=True,
        trust_remote_code=is_trusted(named),
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are reported
    )
    _check_head(named, model, found)
    return model.to(device).eval()


def _check_head(base: str, model: Any, found: Mapping[str, Any]) -> None:
    """Raise GraftError for a head that the weights lack or have for other labels, ValueError for other weights.

    transformers would initialise them at random.
    """
    body, missing = f"{model.base_model_prefix}.", sorted(found["missing_keys"])
    if head := [key for key in missing if not key.startswith(body)]:
        raise GraftError(
            f"rewards.model: {base!r} is no trained classifier: its head ({named(head)}) is missing; name a model "
            "that was trained to classify sequences, or train this one to"
        )
    if missing:
        raise ValueError(f"its weights lack {named(missing)}")
    sizes: dict[str, Sequence[int]] = {key: size for key, size, _ in found["mismatched_keys"]}
    if of_body := [key for key in sorted(sizes) if key.startswith(body)]:
        raise ValueError(f"its weights have other sizes of {named(of_body)} than config.json")
    if sizes:
        key, (labels, *_) = min(sizes.items())
        raise GraftError(
            f"rewards.model: {base!r} has {labels} labels in its weights ({key}), and {model.config.num_labels} in its "
            "config.json; correct id2label and label2id there"
        )


def _tokenizer(base: str, named: str) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=is_trusted(named))
    if not tokenizer("1", add_special_tokens=False)["input_ids"]:  # AutoTokenizer accepts a folder without any file
        raise ValueError("its tokenizer knows no tokens")
    tokenizer.chat_template = fix_date(tokenizer.chat_template)
    return tokenizer


def _encoded(config: Any, tokenizer: Any, pairs: Sequence[Pair]) -> list[Tokens]:
    """Each pair in tokens, without padding. Control tokens in a completion are encoded as plain text."""
    limits = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    longest = min(limit for limit in limits if limit is not None)
    cut = {"truncation": True, "max_length": longest} if longest < UNLIMITED else {}
    if tokenizer.chat_template:
        chats = [
            [*([] if asked is None else [{"role": "user", "content": asked}]), {"role": "assistant", "content": text}]
            for asked, text in pairs
        ]
        return [dict(tokenizer.apply_chat_template(chat, sanitize_control_tokens=True, **cut)) for chat in chats]
    asked, texts = ([pair[side] for pair in pairs] for side in (0, 1))
    inputs = [texts] if None in asked else [asked, texts]
    found = tokenizer(*inputs, split_special_tokens=True, **cut)
    return [{name: found[name][place] for name in found} for place in range(len(pairs))]


def _refuse_unknown_tokens(config: Any, rows: Sequence[Tokens]) -> None:
    """Raises ValueError where a token is outside the model's vocabulary, which on a GPU breaks the CUDA context."""
    largest = max((token for row in rows for token in row["input_ids"]), default=-1)
    if largest >= getattr(config, "vocab_size", math.inf):
        raise ValueError(f"its tokenizer has token {largest}, the model a vocabulary of {config.vocab_size}")


def _unused_token(config: Any, tokenizer: Any, rows: Sequence[Tokens]) -> int | None:
    """A padding token that no row contains; None if they contain all.

    A decoder classifies at the last token that is not padding. If padding were the end-of-text token, a row that ends
    with one would be classified at another token.
    """
    used = {token for row in rows for token in row["input_ids"]}
    known = range(min(len(tokenizer), getattr(config, "vocab_size", len(tokenizer))))
    return next((token for token in known if token not in used), None)


def _logits(model: Any, rows: Sequence[Tokens]) -> "Tensor":
    """Logits of rows in one pass [B, labels], on the CPU, with padding on the right."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    fill = {"input_ids": model.config.get_text_config().pad_token_id or 0}
    inputs = {
        name: pad_sequence([torch.tensor(row[name]) for row in rows], batch_first=True, padding_value=fill.get(name, 0))
        for name in rows[0]
    }
    with torch.inference_mode():
        logits: Tensor = model(**{name: tensor.to(model.device) for name, tensor in inputs.items()}).logits
    return logits.cpu()


@contextmanager
def _one_line_errors(trouble: str) -> Iterator[None]:
    """Turn errors of transformers, tokenizers and torch, of its memory too, into a GraftError of one line."""
    remedy = "name a folder or a Hugging Face id of one; where memory is short, lower rewards.model.batch"
    try:
        with translate_errors(trouble, remedy):
            yield
    except (RuntimeError, OSError, ImportError) as error:
        raise GraftError(f"{trouble} ({error_reason(error)}); {remedy}") from error
