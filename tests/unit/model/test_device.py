"""`machine.device`: on which device a model is loaded."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.cpu.operations import torch_threads
from tasks.model.cuda.cards import VISIBLE, take_card, visible_cards
from tasks.model.device import SMALL, choose_device, device_for, device_name, device_of, memory_note, use_device
from tasks.model.policy import load_policy, policy_device

WITHOUT_CARD = pytest.mark.skipif(torch.cuda.is_available(), reason="here is a card")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torch found a card."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@given(st.booleans(), st.none() | st.integers(1, 10**12))
def test_what_is_set_is_taken_and_auto_needs_a_card_and_a_model_that_is_not_small(
    card: bool, parameters: int | None
) -> None:
    assert choose_device("cpu", card, parameters) == "cpu"
    assert choose_device("cuda", card, parameters) == "cuda"
    is_large = parameters is None or parameters >= SMALL
    assert choose_device("auto", card, parameters) == ("cuda" if card and is_large else "cpu")


@pytest.mark.usefixtures("card")
def test_a_folder_is_as_large_as_its_weights_and_what_has_none_is_not_small(tmp_path: Path) -> None:
    for name, size in {"a": 2 * SMALL, "b": 2 * SMALL - 4}.items():
        with (tmp_path / f"{name}.safetensors").open("wb") as file:
            file.truncate(size)
    assert device_of(str(tmp_path)) == "cpu"
    with (tmp_path / "c.safetensors").open("wb") as file:
        file.truncate(4)
    assert [device_of(base) for base in (str(tmp_path), "Qwen/Qwen2.5-0.5B", "x" * 5000)] == ["cuda"] * 3
    with use_device("cpu"):
        assert {device_of(str(tmp_path)), device_for()} == {"cpu"}


@pytest.mark.usefixtures("card")
def test_a_small_policy_is_loaded_on_the_cpu_in_spite_of_a_card(tmp_path: Path, save_tiny: Callable[..., None]) -> None:
    folder = Layout(tmp_path).policy(0)
    save_tiny(folder)
    assert policy_device(folder) == "cpu"
    assert load_policy(folder).device.type == "cpu"


def test_the_memory_in_use_is_that_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (10**9, 80 * 10**9))
    assert memory_note("cuda") == ", 79.0 GB of 80.0 GB on the card"
    assert memory_note("cpu") == ""


@pytest.mark.parametrize(
    ("named", "cards"), [("2,3", ["2", "3", "2"]), ("GPU-8f", ["GPU-8f"] * 3), ("", [""] * 3), ("-1", ["-1"] * 3)]
)
def test_workers_take_the_visible_cards_in_turn(named: str, cards: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    for number in range(3):
        monkeypatch.setenv(VISIBLE, named)
        take_card(visible_cards(), number)
        taken.append(os.environ[VISIBLE])
    assert taken == cards


def test_without_a_name_cards_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VISIBLE, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert visible_cards() == ["0", "1", "2"]


@WITHOUT_CARD
def test_a_card_that_is_not_there_is_one_line() -> None:
    with pytest.raises(GraftError, match=r"^machine\.device: cuda, but torch finds no card; .*set it to auto$"):
        use_device("cuda").__enter__()
    with use_device("auto"):
        assert device_name(device_for()) == "cpu"


def fail_on_threads(count: int) -> None:
    with torch_threads(count):
        raise ValueError(f"on {torch.get_num_threads()} threads")


def test_afterwards_there_are_as_many_as_before_also_where_the_block_fails() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match=f"on {before + 1} threads"):
        fail_on_threads(before + 1)
    assert torch.get_num_threads() == before
