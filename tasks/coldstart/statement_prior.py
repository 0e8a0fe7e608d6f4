"""Statement prior: a small model of the next statement given the words around the quantities.

A leaf is embedded by the words around it and the question (`describe_leaves`), a value by its two operands
(`describe_value`); the score of `left symbol right` is bilinear in the two embeddings, plus tables over their relation
and their previous use (`statement_scores`).

All formulas work on numpy arrays (`benchmarks/statement_search`) and torch tensors (training).
Shapes: P problems, B states, L leaves, M operands, S symbols, D width of a description.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.coldstart.expression_space import CONSTANTS, CUES, SYMBOLS, Space
from tasks.coldstart.expression_states import PAIR_KINDS, STOP_KINDS, USE_KINDS
from tasks.coldstart.question_words import NUMBER, read_words

Weights = dict[str, Any]
"""Name → numpy array, or torch tensor while it is trained."""

WINDOW = 5  # words on either side of a quantity
TEXT = 120  # words of a question that are read
EMBEDDING, HIDDEN, DESCRIPTION, RANK = 24, 64, 32, 16
S = len(SYMBOLS)
KNOWN_CONSTANTS = sorted({*CONSTANTS, *(value for values in CUES.values() for value in values)})
FEATURES = 6 + 9 + 9 + len(KNOWN_CONSTANTS) + 1
IMPOSSIBLE = -1e9


class Texts(NamedTuple):
    """Model input for P problems. `windows` [P, L, 2 WINDOW], `words` [P, TEXT]: word indices, 0 = none."""

    windows: Any
    features: Any  # [P, L, FEATURES]
    words: Any
    whole: Any  # [P, 1, TEXT]: weights of the mean over all words
    asked: Any  # [P, 1, TEXT]: weights of the mean over the last sentence


@dataclass(frozen=True)
class Prior:
    """A trained model: vocabulary and weights (see `shapes`)."""

    vocabulary: dict[str, int]
    weights: Weights


def shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    """Name → shape of each weight."""
    return {
        "embedding": (vocabulary + 1, EMBEDDING),
        "window": (2 * WINDOW * EMBEDDING, HIDDEN),
        "features": (FEATURES, HIDDEN),
        "whole": (EMBEDDING, HIDDEN),
        "asked": (EMBEDDING, HIDDEN),
        "hidden_bias": (HIDDEN,),
        "leaf": (HIDDEN, DESCRIPTION),
        "question_whole": (EMBEDDING, HIDDEN),
        "question_asked": (EMBEDDING, HIDDEN),
        "from_left": (S, DESCRIPTION, DESCRIPTION),
        "from_right": (S, DESCRIPTION, DESCRIPTION),
        "from_bias": (S, DESCRIPTION),
        "as_left": (S, DESCRIPTION, RANK),
        "as_right": (S, DESCRIPTION, RANK),
        "left_alone": (DESCRIPTION, S),
        "right_alone": (DESCRIPTION, S),
        "symbol": (HIDDEN, S),
        "pair": (S, PAIR_KINDS),
        "use_left": (USE_KINDS, S),
        "use_right": (USE_KINDS, S),
        "stop": (STOP_KINDS,),
        "stop_latest": (DESCRIPTION, HIDDEN),
        "stop_hidden": (HIDDEN,),
    }


def softsign(x: Any) -> Any:
    """Softsign, x / (1 + |x|), for numpy and torch."""
    return x / (1 + abs(x))


def describe_leaves(w: Weights, texts: Texts, drop: Any = None) -> tuple[Any, Any]:
    """[P, L, D] of the leaves, [P, HIDDEN] of the questions. `drop` is the dropout in training."""
    drop = drop or (lambda x: x)
    around = drop(w["embedding"][texts.windows])
    around = around.reshape(*around.shape[:2], -1)
    words = drop(w["embedding"][texts.words])
    whole, asked = (texts.whole @ words)[:, 0], (texts.asked @ words)[:, 0]
    context = whole @ w["whole"] + asked @ w["asked"] + w["hidden_bias"]
    hidden = drop((around @ w["window"] + texts.features @ w["features"] + context[:, None]).clip(0))
    question = drop((whole @ w["question_whole"] + asked @ w["question_asked"]).clip(0))
    return softsign(hidden @ w["leaf"]), question


def describe_value(w: Weights, symbol: Any, left: Any, right: Any) -> Any:
    """[B, D] of `left symbol right`; `symbol` [B], `left` and `right` [B, D]."""
    from_left = (left[:, None] @ w["from_left"][symbol])[:, 0]
    from_right = (right[:, None] @ w["from_right"][symbol])[:, 0]
    return softsign(from_left + from_right + w["from_bias"][symbol])


def statement_scores(w: Weights, operands: Any, question: Any, pairs: Any, uses: Any) -> Any:
    """[B, S, M, M]: scores before the softmax; `operands` [B, M, D], `pairs` [B, M, M], `uses` [B, M]."""
    left = operands[:, None] @ w["as_left"]  # [B, S, M, RANK]
    right = operands[:, None] @ w["as_right"]
    scores = left @ right.swapaxes(2, 3)
    alone_left = operands @ w["left_alone"] + w["use_left"][uses] + (question[:, None] @ w["symbol"])
    alone_right = operands @ w["right_alone"] + w["use_right"][uses]
    scores += w["pair"][:, pairs].swapaxes(0, 1)
    scores += alone_left.swapaxes(1, 2)[:, :, :, None]
    scores += alone_right.swapaxes(1, 2)[:, :, None]
    return scores


def stop_scores(w: Weights, latest: Any, question: Any, kinds: Any) -> Any:
    """[B]: log-odds of returning the last value, described by `latest` [B, D]."""
    hidden = ((latest[:, None] @ w["stop_latest"])[:, 0] + question).clip(0)
    return w["stop"][kinds] + (hidden[:, None] @ w["stop_hidden"][:, None])[:, 0, 0]


def texts_of(spaces: Sequence[Space], vocabulary: dict[str, int], leaves: int) -> Texts:
    """Model input, padded to `leaves` leaves."""
    size = len(spaces)
    windows = np.zeros((size, leaves, 2 * WINDOW), dtype=np.int64)
    features = np.zeros((size, leaves, FEATURES), dtype=np.float32)
    words = np.zeros((size, TEXT), dtype=np.int64)
    whole, asked = np.zeros((size, 1, TEXT), dtype=np.float32), np.zeros((size, 1, TEXT), dtype=np.float32)
    for p, space in enumerate(spaces):
        reading = read_words(space.question)
        numbers = [vocabulary.get(word, 0) for word in reading.words]
        padded = [0] * WINDOW + numbers + [0] * WINDOW
        for i in range(space.quantities):
            at = reading.places[i] + WINDOW
            windows[p, i] = padded[at - WINDOW : at] + padded[at + 1 : at + 1 + WINDOW]
        features[p, : space.leaves] = _features(space)
        last = reading.sentences[-1] - (reading.words[-1] in ".?") if reading.words else 0
        read = len(numbers[:TEXT])
        words[p, :read] = numbers[:TEXT]
        whole[p, 0, :read] = 1 / max(1, read) * 4
        final = np.array(reading.sentences[:TEXT]) >= max(last, 0)
        asked[p, 0, :read] = final / max(1, final.sum()) * 4
    return Texts(windows, features, words, whole, asked)


def _features(space: Space) -> NDArray[np.float32]:
    """[leaves, FEATURES]: kind and position of each leaf."""
    made = np.zeros((space.leaves, FEATURES), dtype=np.float32)
    reading = read_words(space.question)
    values = space.inputs[0]
    for i in range(space.quantities):
        value, place = values[i], reading.places[i]
        kinds = (value < 1, value == 1, value == 2, value != round(value), value >= 100, value < 10)
        made[i, :6] = kinds
        made[i, 6 + min(i, 8)] = 1
        made[i, 15 + min(space.quantities - 1 - i, 8)] = 1
        made[i, -1] = reading.sentences[place] >= reading.sentences[-1] - 1
    for i in range(space.quantities, space.leaves):
        made[i, 24 + KNOWN_CONSTANTS.index(values[i])] = 1
    return made


def vocabulary_of(spaces: Sequence[Space], least: int) -> dict[str, int]:
    """Words of at least `least` questions, numbered from 1 by frequency, then alphabet."""
    counts: dict[str, int] = {}
    for space in spaces:
        for word in set(read_words(space.question).words):
            counts[word] = counts.get(word, 0) + 1
    kept = sorted((-count, word) for word, count in counts.items() if count >= least or word == NUMBER)
    return {word: number for number, (_, word) in enumerate(kept, start=1)}
