"""The size of a run of N minutes: never smaller for more minutes, and as long as it is said to be."""

from itertools import pairwise
from pathlib import Path

import pytest

from flows.minutes import RunSize, choose_size, run_seconds, run_size, size_for, time_step
from tasks.errors import GraftError
from tasks.params.file import load_params, overridden
from tasks.params.params import Params

PARAMS_FILE = Path(__file__).parents[3] / "params.yaml"
STEP = 0.2
MINUTES = [2.2, 2.5, 3.5, 5, 8, 12, 20, 60]


@pytest.fixture(scope="module")
def params() -> Params:
    return load_params(PARAMS_FILE)


def changed(*assignments: str) -> Params:
    return overridden(PARAMS_FILE, PARAMS_FILE.read_text(), assignments)[1]


def test_more_minutes_never_give_fewer_of_anything(params: Params) -> None:
    sizes = [size_for(minutes, params, STEP) for minutes in MINUTES]
    for less, more in pairwise(sizes):
        assert less.problems < more.problems
        assert less.rounds <= more.rounds
        assert less.samples <= more.samples
        assert less.simulations <= more.simulations


@pytest.mark.parametrize("minutes", MINUTES)
@pytest.mark.parametrize("step", [0.1, 0.25])
def test_a_run_takes_nearly_all_of_its_minutes_and_no_more(params: Params, minutes: float, step: float) -> None:
    seconds = run_seconds(size_for(minutes, params, step), params, step)
    assert 0.75 * 60 * minutes <= seconds <= 60 * minutes


@pytest.mark.parametrize(
    "assignment", ["problems.test=400", "evaluation.samples=40", "update.epochs=12", "bootstrap.epochs=16"]
)
def test_what_takes_longer_leaves_time_for_fewer_problems(params: Params, assignment: str) -> None:
    assert size_for(4, changed(assignment), STEP).problems < size_for(4, params, STEP).problems


def test_a_run_that_cannot_be_so_short_says_how_short_one_is(params: Params) -> None:
    with pytest.raises(GraftError, match=r"^--minutes 0.1: the smallest run takes \d\.\d on this machine; name more$"):
        size_for(0.1, params, STEP)


@pytest.mark.parametrize(
    ("assignment", "param"), [("environment=answer", "environment"), ("policy.base=some/model", "policy.base")]
)
def test_a_run_of_unknown_seconds_is_refused(assignment: str, param: str) -> None:
    with pytest.raises(GraftError, match=rf"^--minutes: how long a run takes is known for {param}: "):
        choose_size(5, changed(assignment), [], print)


@pytest.mark.parametrize("minutes", [float("nan"), 0.0, -3.0])
def test_no_number_of_minutes_is_none(params: Params, minutes: float) -> None:
    with pytest.raises(GraftError, match="the smallest run takes"):
        size_for(minutes, params, STEP)


def test_what_minutes_sets_is_not_set_twice(params: Params) -> None:
    with pytest.raises(GraftError, match=r"leave out rounds=2$"):
        choose_size(60, params, ["update.beta=0.1", "rounds=2"], print)


def test_the_choice_is_said_and_holds_for_this_machine(params: Params) -> None:
    said: list[str] = []
    chosen = choose_size(60, params, [], said.append)
    assert f"problems.train={said[0].split(': ')[1].split()[0]}" in chosen
    assert float(said[0].split()[0]) <= 60
    assert changed(*chosen).search.samples <= changed(*chosen).search.simulations


def test_a_step_takes_longer_in_a_larger_model(params: Params) -> None:
    assert time_step(params) > time_step(changed("bootstrap.hidden=64", "bootstrap.layers=1")) > 0


def test_the_default_is_about_as_large_as_a_size_of_its_minutes(params: Params) -> None:
    default = RunSize(params.problems.train, params.rounds.last, params.search.samples, params.search.simulations)
    assert run_size(params.problems.train) == default
