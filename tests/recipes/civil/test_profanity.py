"""The classifier equals scikit-learn's on the package's own files."""

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes.civil.profanity import load_profanity
from recipes.civil.word_list import is_rude
from tasks.errors import GraftError


@pytest.fixture(scope="module")
def package() -> Any:
    """The package itself: the oracle."""
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


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "profanity_check.profanity_check", None)
    load_profanity.cache_clear()
    try:
        with pytest.raises(GraftError, match=r"alt-profanity-check, which is missing .*pip install 'graft\[civil\]'$"):
            load_profanity()
    finally:
        load_profanity.cache_clear()


@pytest.mark.parametrize(("text", "rude"), [
    ("You IDIOT!", True), ("so Shut  up, please", True), ("a classic glass", False), ("the hellish idiots", False),
    ("", False), ("shut the door, look up", False),
])  # fmt: skip
def test_the_word_list_knows_whole_words_in_any_case(text: str, rude: bool) -> None:
    assert is_rude(text) == rude
