"""The tokenizer gives the same tokens in training and after plain transformers has loaded it."""

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.tokenizer import EOS, PAD, train_tokenizer
from tasks.programs.contract import HEADER, PARTS

STATEMENT = "    a = n[0] * n[1]\n"
CODES = [HEADER + STATEMENT + "    b = a / 100\n    return b\n", HEADER + "    a = n[1] - n[0]\n    return a\n"]
QUESTIONS = ["Ann buys 12 boxes of 345 pens for $1,200.50.\n", "It's half of Zoë's: 7/8 − 25%?\n", "São  Paulo\t½\n"]
TEXTS = [question + code for question in QUESTIONS for code in CODES]


@pytest.fixture(scope="module")
def trained() -> Any:
    return train_tokenizer(TEXTS, 400)


@pytest.fixture(scope="module")
def reloaded(trained: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """With a Qwen2 config AutoTokenizer builds its own tokenizer from the file."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("policy")
    build_scratch_model(trained, hidden=32, layers=1, seed=0).save_pretrained(folder)
    trained.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def check(trained: Any, reloaded: Any, text: str) -> None:
    ids = ids_of(trained, text)
    assert ids_of(reloaded, text) == ids
    for tokenizer in (trained, reloaded):
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("text", [*TEXTS, *PARTS, "e\u0301 \u212b", "it 's , no !", " \r\n\t\n  x", "漢字 🙂 İ", ""])
def test_known_texts_have_the_same_tokens_after_reloading(trained: Any, reloaded: Any, text: str) -> None:
    check(trained, reloaded, text)


@given(text=st.lists(st.sampled_from([*PARTS, *"n0 \n'sS$%é", "\u0301", "12"]) | st.text(max_size=5)).map("".join))
def test_any_text_has_the_same_tokens_after_reloading_and_is_lossless(trained: Any, reloaded: Any, text: str) -> None:
    check(trained, reloaded, text)


def test_the_special_tokens_survive_reloading(trained: Any, reloaded: Any) -> None:
    assert (reloaded.pad_token, reloaded.eos_token) == (PAD, EOS)
    assert (reloaded.pad_token_id, reloaded.eos_token_id) == (trained.pad_token_id, trained.eos_token_id)
    assert len(reloaded) == len(trained)


@given(number=st.integers(0, 10**12))
def test_digits_are_single_tokens(trained: Any, number: int) -> None:
    for text in (f"{number}", f"buys {number} pens", f"{number:,}"):
        pieces = [trained.decode([i]) for i in ids_of(trained, text)]
        assert all(len(piece) == 1 for piece in pieces if re.search(r"\d", piece))


def test_a_statement_takes_seven_tokens_the_header_one_and_the_vocabulary_is_limited(trained: Any) -> None:
    assert len(ids_of(trained, STATEMENT)) == 7
    assert len(ids_of(trained, HEADER)) == 1
    assert len(trained) <= 400 + len(PARTS)
    assert all(len(ids_of(trained, text)) == 1 for text in PARTS)
