"""The classifier equals scikit-learn's on the package's own files, and files that would run code are refused."""

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.civil import profanity
from recipes.civil.pickled_data import Pickled, read_pickled
from recipes.civil.profanity import load_profanity, read_profanity
from recipes.civil.word_list import is_rude
from tasks.errors import GraftError


@pytest.fixture(scope="module")
def package() -> Any:
    """The package itself, which unpickles its files: the oracle."""
    import profanity_check.profanity_check as package

    return package


WORDS = st.sampled_from(
    ["you", "idiot", "Damn", "teacher", "the", "crap", "x", "naïve", "2", "don't", "kind", "STUPID"]
)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.lists(WORDS | st.text(max_size=6), max_size=12).map(" ".join), min_size=1, max_size=8))
def test_it_is_the_packages_classifier(package: Any, texts: list[str]) -> None:
    classifier = load_profanity()
    assert [classifier.toxicity(text) for text in texts] == pytest.approx(package.predict_prob(texts), abs=1e-12)


def test_words_decide_and_the_order_of_words_does_not() -> None:
    classifier = load_profanity()
    assert classifier.toxicity("what an idiot") > 0.9
    assert classifier.toxicity("what a teacher") < 0.1
    assert classifier.toxicity("") == classifier.toxicity("a I")  # no word of two letters
    assert classifier.toxicity("idiot damn an") == pytest.approx(classifier.toxicity("an idiot, DAMN"))


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profanity, "PACKAGE", "no_such_package")
    load_profanity.cache_clear()
    try:
        with pytest.raises(GraftError, match=r"alt-profanity-check, which is missing; .*pip install 'graft\[civil\]'$"):
            load_profanity()
    finally:
        load_profanity.cache_clear()


class Trap:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", [4, 5])
def test_reading_calls_nothing_that_a_file_names(tmp_path: Path, protocol: int) -> None:
    file, made = tmp_path / "trap", tmp_path / "made"
    file.write_bytes(pickle.dumps([Trap(made)], protocol=protocol))
    (read,) = read_pickled(file)
    assert isinstance(read, Pickled)
    assert read.name.endswith(" Path.touch") or read.name == "builtins getattr"
    assert not made.exists()
    pickle.loads(file.read_bytes())
    assert made.exists()  # the trap is one


@pytest.mark.parametrize("value", [
    {"a": [1, 2.5, None, True, "é", (), (1,), (1, 2, 3, 4)], 7: 2**70, "b": {"nested": [[]]}},
    {"x": np.arange(6, dtype="<f4").reshape(2, 3), "y": [np.arange(3), np.asfortranarray(np.ones((2, 2)))]},
    {"big endian": np.arange(3, dtype=">i2"), "number": np.float64(1.5), "list": list(range(300))},
])  # fmt: skip
def test_plain_values_and_arrays_are_read_as_joblib_reads_them(tmp_path: Path, value: dict[Any, Any]) -> None:
    joblib.dump(value, tmp_path / "file")
    np.testing.assert_equal(read_pickled(tmp_path / "file"), value)


@pytest.mark.parametrize("content", [
    b"", b"no pickle", pickle.dumps({1}), b"\x80\x04h\x07.", b"\x80\x04\x85.",
    pickle.dumps([1, 2, 3])[:-3],
])  # fmt: skip
def test_anything_else_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(GraftError, match="no file of plain values and arrays of numbers") as error:
        read_pickled(tmp_path / "file")
    assert "\n" not in str(error.value)


def test_an_array_of_objects_is_refused(tmp_path: Path) -> None:
    joblib.dump(np.array([Path(), Path()], dtype=object), tmp_path / "file")
    with pytest.raises(GraftError, match="ValueError: an array of object"):
        read_pickled(tmp_path / "file")


def test_another_classifier_is_refused(tmp_path: Path) -> None:
    joblib.dump({"coef": np.ones(3)}, tmp_path / "file")
    with pytest.raises(GraftError, match=r"not the classifier of alt-profanity-check 1\.9\.1"):
        read_profanity(tmp_path / "file", tmp_path / "file")


@pytest.mark.parametrize(("text", "rude"), [
    ("You IDIOT!", True), ("so Shut  up, please", True), ("a classic glass", False), ("the hellish idiots", False),
    ("", False), ("shut the door, look up", False),
])  # fmt: skip
def test_the_word_list_knows_whole_words_in_any_case(text: str, rude: bool) -> None:
    assert is_rude(text) == rude
