"""Law: every number among the params has an upper bound, and one beyond it is refused at once."""

import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tasks.errors import GraftError
from tasks.params.file import load_params, overridden
from tasks.params.params import Params
from tasks.params.sections import MOST_ROUNDS

SHIPPED = Path(__file__).parents[3] / "params.yaml"
TEXT = SHIPPED.read_text()
VALUES = load_params(SHIPPED).model_dump()


def numbers(section: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of each param that is a number."""
    found = []
    for name, value in section.items():
        if isinstance(value, dict):
            found += numbers(value, (*path, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.append((*path, name))
    return [place for place in found if place[:2] != ("rounds", "start")]


@pytest.mark.parametrize("place", numbers(VALUES), ids=".".join)
def test_every_number_has_an_upper_bound(place: tuple[str, ...]) -> None:
    if place == ("update", "max_grad_norm"):
        return  # no bound at all is a use of it
    text = load_params(SHIPPED).model_dump()
    holder = text
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = 10**20
    text["rounds"]["start"] = {str(key): value for key, value in text["rounds"]["start"].items()}
    with pytest.raises(ValidationError) as caught:
        Params.model_validate(text)
    assert place in [error["loc"] for error in caught.value.errors()]


@pytest.mark.parametrize("rounds", [MOST_ROUNDS + 1, 10**400])
def test_more_rounds_than_the_chain_can_have_are_refused_at_once(rounds: int) -> None:
    began = time.process_time()
    with pytest.raises(GraftError, match=rf"rounds: 10+1? is more than {MOST_ROUNDS}"):
        overridden(SHIPPED, TEXT, [f"rounds={rounds}"])
    with pytest.raises(GraftError, match=r"rounds\.last: .*less than or equal to 1000"):
        overridden(SHIPPED, TEXT, [f"rounds.last={rounds}"])
    assert time.process_time() - began < 5


def test_the_most_rounds_are_accepted() -> None:
    _, params, _ = overridden(SHIPPED, TEXT, [f"rounds={MOST_ROUNDS}"])
    assert params.rounds.start[MOST_ROUNDS] == MOST_ROUNDS - 1
