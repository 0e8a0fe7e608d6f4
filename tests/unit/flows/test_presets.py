"""`--preset`: what it writes, and what a user's own `-S` leaves of it."""

from pathlib import Path

import pytest

from flows.cli.presets import PRESETS, preset
from tasks.errors import GraftError
from tasks.params.file import load_params, override

SHIPPED = Path(__file__).parents[3] / "params.yaml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(SHIPPED.read_text())
    return path


def test_improved_is_what_it_is_said_to_be(file: Path) -> None:
    override(file, preset("improved"))
    params = load_params(file)
    assert (params.problems.train, params.problems.test) == (200, 50)
    assert (params.grpo.learning_rate, params.grpo.beta, params.grpo.epochs) == (5e-5, 0.05, 10)
    assert (params.search.temperature, params.evaluation.temperature) == (0.9, 0.8)


def test_small_is_what_it_is_said_to_be(file: Path) -> None:
    override(file, preset("small"))
    params = load_params(file)
    assert (params.problems.train, params.problems.test) == (20, 10)
    assert (params.grpo.learning_rate, params.grpo.beta) == (1e-5, 0.0)
    assert (params.search.temperature, params.evaluation.temperature) == (0.7, 0.75)


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_set_by_hand_wins(file: Path, name: str) -> None:
    override(file, [*preset(name), "grpo.beta=0.5"])
    assert load_params(file).grpo.beta == 0.5


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    with pytest.raises(GraftError, match=r"^--preset large: there is none; name one of: small, improved$"):
        preset("large")
