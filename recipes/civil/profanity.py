"""Toxicity of a text by alt-profanity-check's classifier, computed from its arrays.

    x_w = count of word w · idf_w,  divided by the length of x          (TF-IDF; stop words are in no vocabulary)
    p   = mean over 5 support vector machines of 1 / (1 + exp(a (c · x + b) + d))    (Platt's calibration)

The package's own `predict_prob` takes 200 times as long for one text: scikit-learn validates arrays in every step.
Trained on comments of Wikipedia and tweets; it knows words and no meaning, see recipes/civil/README.md.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tasks.errors import GraftError

WORD = re.compile(r"(?u)\b\w\w+\b")
"""A word: two letters, digits or underscores, or more."""


class Machine(NamedTuple):
    """One calibrated support vector machine: its bias b, and the slope a and offset d of its calibration."""

    bias: float
    slope: float
    offset: float


class Profanity:
    """The classifier. `words`: word → idf and its coefficient in each of `machines`."""

    def __init__(self, words: Mapping[str, tuple[float, ...]], machines: Sequence[Machine]) -> None:
        self._words, self._machines = words, machines

    def toxicity(self, text: str) -> float:
        """Probability in [0, 1] that a text is profane or offensive, by the words that the classifier knows."""
        counts = Counter(word for word in WORD.findall(text.lower()) if word in self._words)
        entries = [(count * self._words[word][0], self._words[word]) for word, count in counts.items()]
        length = math.sqrt(math.fsum(value * value for value, _ in entries)) or 1.0
        values = []
        for place, machine in enumerate(self._machines, 1):
            distance = math.fsum(value * own[place] for value, own in entries) / length + machine.bias
            values.append(1 / (1 + math.exp(machine.slope * distance + machine.offset)))
        return math.fsum(values) / len(values)


@lru_cache(1)
def load_profanity() -> Profanity:
    """The classifier of the installed package. Raises GraftError if there is none."""
    try:
        from profanity_check.profanity_check import model, vectorizer  # an extra
    except ImportError as error:
        raise GraftError(
            f"environment: civil scores texts with the package alt-profanity-check, which is missing ({error}); "
            "install it: pip install 'graft[civil]'"
        ) from error
    calibrations = [(part.estimator, part.calibrators[0]) for part in model.calibrated_classifiers_]
    machines = [Machine(float(svm.intercept_[0]), float(platt.a_), float(platt.b_)) for svm, platt in calibrations]
    columns = [svm.coef_[0].tolist() for svm, _ in calibrations]
    rows = list(zip(vectorizer.idf_.tolist(), *columns, strict=True))
    return Profanity({word: rows[place] for word, place in vectorizer.vocabulary_.items()}, machines)
