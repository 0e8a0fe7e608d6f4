"""Toxicity of a text by alt-profanity-check's classifier, computed from its arrays.

    x_w = count of word w · idf_w,  divided by the length of x          (TF-IDF; stop words are in no vocabulary)
    p   = mean over 5 support vector machines of 1 / (1 + exp(a (c · x + b) + d))    (Platt's calibration)

The package's own module is not imported: it would unpickle the files. Trained on comments of Wikipedia and tweets; it
knows words and no meaning, see recipes/civil/README.md.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from recipes.civil.pickled_data import Pickled, read_pickled
from tasks.errors import GraftError

WORD = re.compile(r"(?u)\b\w\w+\b")
"""A word: two letters, digits or underscores, or more."""

PACKAGE = "profanity_check"


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
    """The classifier of the installed package. Raises GraftError if there is none or its files hold something else."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise GraftError(
            "environment: civil scores texts with the package alt-profanity-check, which is missing; install it: "
            "pip install 'graft[civil]'"
        )
    folder = Path(spec.submodule_search_locations[0]) / "data"
    return read_profanity(folder / "vectorizer.joblib", folder / "model.joblib")


def read_profanity(vectorizer: Path, model: Path) -> Profanity:
    """The classifier from its two files. Raises GraftError if they hold something else."""
    found, calibrated = read_pickled(vectorizer), read_pickled(model)
    try:
        idf = _field(found, "_tfidf", "idf_").tolist()
        parts = _field(calibrated, "calibrated_classifiers_")
        machines = [
            Machine(
                float(_field(part, "estimator", "intercept_")[0]),
                float(_field(part, "calibrators")[0].state["a_"]),
                float(_field(part, "calibrators")[0].state["b_"]),
            )
            for part in parts
        ]
        columns = [_field(part, "estimator", "coef_")[0].tolist() for part in parts]
        words = {
            word: (idf[place], *(column[place] for column in columns))
            for word, place in _field(found, "vocabulary_").items()
        }
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise GraftError(
            f"{model}: not the classifier of alt-profanity-check 1.9.1 ({type(error).__name__}: {error}); install "
            "that version: pip install 'graft[civil]'"
        ) from error
    return Profanity(words, machines)


def _field(value: Any, *names: str) -> Any:
    """A field of a field … of an object. Raises TypeError if one is no object."""
    for name in names:
        if not isinstance(value, Pickled):
            raise TypeError(f"{name}: of a {type(value).__name__}")
        value = value.state[name]
    return value
