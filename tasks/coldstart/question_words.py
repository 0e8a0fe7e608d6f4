"""Words around the quantities of a question."""

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tasks.coldstart.expression_space import Space
from tasks.programs.operators.builtin import read_quantities

NUMBER = "<number>"
_WORD = re.compile(r"[a-z]+|[$%?.,;:]")


@dataclass(frozen=True)
class QuestionWords:
    """A question as words; each quantity is the word NUMBER. `places` [Q]; `sentences` [words]: number of each."""

    words: tuple[str, ...]
    places: tuple[int, ...]
    sentences: tuple[int, ...]


@lru_cache(maxsize=16384)
def read_words(question: str) -> QuestionWords:
    """The words of a question, lower case, punctuation and `$` among them."""
    words: list[str] = []
    places: list[int] = []
    *pieces, rest = read_quantities(question)[1]
    for piece in pieces:
        words += _WORD.findall(piece.lower())
        places.append(len(words))
        words.append(NUMBER)
    words += _WORD.findall(rest.lower())
    sentences, current = [], 0
    for word in words:
        sentences.append(current)
        current += word in ".?"
    return QuestionWords(tuple(words), tuple(places), tuple(sentences))


def quantity_relations(space: Space) -> NDArray[np.int64]:
    """[Q, Q] in [1, 40): distance of two quantities in the text, and whether they share the next word or sentence."""
    reading = read_words(space.question)
    count = space.quantities
    nexts = [_following(reading, place) for place in reading.places[:count]]
    sentence = [reading.sentences[place] for place in reading.places[:count]]
    made = np.zeros((count, count), dtype=np.int64)
    for i in range(count):
        for j in range(count):
            distance = int(np.clip(j - i, -4, 4)) + 4
            same = nexts[i] != "" and nexts[i] == nexts[j]
            made[i, j] = 1 + distance * 4 + 2 * same + (sentence[i] == sentence[j])
    return made


def _following(reading: QuestionWords, place: int) -> str:
    """The word after a quantity, its unit; `$` for money."""
    if place > 0 and reading.words[place - 1] == "$":
        return "$"
    return reading.words[place + 1] if place + 1 < len(reading.words) else ""
