"""The benchmark of influence: all ways give the same numbers, and the figures are what their names say."""

import pytest

from benchmarks.influence import HELD_OUT_LOOP, WAYS, Turns, agreement, figures, measured, table
from benchmarks.influence_ways import Shape

pytestmark = pytest.mark.nightly

SHAPE = Shape(rows=6, tokens=40, rank=2, hidden=32, layers=1, vocabulary=64)


def test_all_ways_take_turns_and_find_the_same_influence() -> None:
    sides = measured(SHAPE, [*WAYS, HELD_OUT_LOOP], turns=1)
    held_out = sides.pop(HELD_OUT_LOOP)[-1]["found"]
    found = {name: side[-1]["found"] for name, side in sides.items()}
    assert found["plain"] is found["lean"] is None
    for name in ("same batch", "vmap"):
        assert found[name] == pytest.approx(found["loop"], rel=1e-4)
    assert found["held out"] == pytest.approx(held_out, rel=1e-4)
    assert found["held out"] != pytest.approx(found["loop"], rel=1e-2)
    assert all(side.cpu > 0 for side in sides.values())
    assert table(SHAPE, sides, held_out).row_count == len(WAYS)


def side(cpu: float, memory: float, found: list[float] | None = None) -> Turns:
    return Turns({"cpu": seconds, "memory": memory, "found": found} for seconds in (99.0, cpu))


def test_figures_are_the_worse_of_the_sizes() -> None:
    first = {
        "plain": side(2.0, 100.0),
        "same batch": side(2.1, 110.0, [1.0, -2.0]),
        "held out": side(3.0, 1.0),
        "loop": side(9.0, 1.0, [1.0, -2.0]),
    }
    second = first | {"same batch": side(2.2, 90.0, [1.0, 2.0]), "held out": side(4.0, 1.0)}
    assert figures([first, second]) == {
        "same_batch_ratio": 1.1,
        "held_out_excess": 1.0,
        "peak_memory_ratio": 1.1,
        "max_relative_error": 2.0,
        "sign_agreement": 0.75,
        "dattri_llm_ratio": None,
    }


def test_the_other_librarys_ratio_is_the_worse_of_the_sizes() -> None:
    sides = {"plain": side(2.0, 1.0), "same batch": side(2.0, 1.0, [1.0]), "held out": side(2.0, 1.0)}
    sides |= {"loop": side(2.0, 1.0, [1.0]), "dattri-llm": side(3.0, 1.0, [1.0])}
    assert figures([sides, sides | {"dattri-llm": side(2.5, 1.0, [1.0])}])["dattri_llm_ratio"] == 1.5


def test_agreement_is_with_a_loop_of_the_same_validation() -> None:
    ways = {"plain": None, "loop": [1.0, -2.0], "vmap": [1.0, -1.0], "held out": [3.0, 4.0], "captum": [3.0, -4.0]}
    ways["dattri-llm"] = [1.0, -2.0]
    sides = {name: side(1.0, 1.0, found) for name, found in ways.items()}
    cells = {name: agreement(name, sides, held_out=[3.0, 4.0]) for name in ways}
    assert cells == {
        "plain": ("", "", ""),
        "loop": ("", "", ""),
        "vmap": ("4e-01", "5e-01", "100 %"),
        "held out": ("0e+00", "0e+00", "100 %"),
        "captum": ("2e+00", "2e+00", "50 %"),
        "dattri-llm": ("0e+00", "0e+00", "100 %"),
    }
