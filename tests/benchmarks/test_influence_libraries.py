"""What the benchmark of influence makes libraries do: the same as the loop, and nothing where they are absent."""

from importlib.machinery import ModuleSpec

import pytest

from benchmarks.influence import LARGE, SMALL, WAYS, names_of
from benchmarks.influence_ways import Shape, loop, samples_of, scorer_of
from benchmarks.support import influence_libraries
from benchmarks.support.influence_libraries import LIBRARIES, SAME_BATCH, absence, package_of

pytestmark = pytest.mark.nightly

SHAPE = Shape(rows=6, tokens=40, rank=2, hidden=32, layers=2, vocabulary=64)


def install(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    def find(name: str) -> ModuleSpec | None:
        return ModuleSpec(name, None) if name in packages else None

    monkeypatch.setattr(influence_libraries, "find_spec", find)


def test_libraries_that_are_absent_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert names_of(SMALL) == list(WAYS)
    assert absence() == "captum, opacus, dattri, dattri-llm: not installed (pip install -e '.[bench]')"
    install(monkeypatch, "opacus", "dattri", "dattri_llm")
    theirs = ["dattri-llm", "dattri-llm, held out"]
    assert names_of(SMALL) == [*WAYS, "opacus", "dattri", "dattri, no projection", *theirs]
    assert absence() == "captum: not installed (pip install -e '.[bench]')"
    install(monkeypatch, "captum", "opacus", "dattri", "dattri_llm")
    assert names_of(SMALL) == [*WAYS, *LIBRARIES]
    assert names_of(LARGE) == [*WAYS, *theirs]
    assert absence() is None


def influences_by(name: str) -> tuple[list[float], list[float]]:
    """A library's second turn, and the loop's numbers on the same validation."""
    pytest.importorskip(package_of(name).replace("-", "_"))
    samples, others = samples_of(SHAPE, 0), samples_of(SHAPE, 1)
    turn = LIBRARIES[name](scorer_of(SHAPE), samples, others)
    turn()
    return turn(), loop(scorer_of(SHAPE), samples, samples if name == SAME_BATCH else others)


@pytest.mark.parametrize("name", sorted(LIBRARIES.keys() - {"dattri"}))
def test_a_library_finds_the_influence_that_the_loop_finds(name: str) -> None:
    found, exact = influences_by(name)
    assert found == pytest.approx(exact, rel=1e-3)


def test_dattri_as_it_comes_finds_it_nearly() -> None:
    found, exact = influences_by("dattri")
    assert found != pytest.approx(exact, rel=1e-3)
    length = sum(x * x for x in exact) ** 0.5
    assert sum((a - b) ** 2 for a, b in zip(found, exact, strict=True)) ** 0.5 < length
