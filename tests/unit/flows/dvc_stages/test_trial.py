"""Law: the seconds of a run that has never run are those of a trial, in proportion to what there is to compute."""

from pathlib import Path

import pytest

from flows.dvc_stages.trial import Trial, completions, estimate, try_run
from tasks.params.file import overridden
from tasks.params.params import Params

ROOT = Path(__file__).parents[4]
SMALL = [
    *["problems.train=12", "problems.validation=4", "problems.test=8", "bootstrap.hidden=32", "bootstrap.layers=1"],
    *["search.samples=2", "search.simulations=4", "grpo.group_size=4"],
    *["influence.selection=positive", "influence.n=4", "influence.completions=2"],
]


def params(*assignments: str) -> tuple[str, Params]:
    path = ROOT / "params.yaml"
    return overridden(path, path.read_text(), assignments)[:2]


@pytest.fixture(scope="module")
def trial() -> Trial:
    before = sorted(path.name for path in ROOT.iterdir())
    tried = try_run(ROOT, *params(*SMALL))
    assert sorted(path.name for path in ROOT.iterdir()) == before
    return tried


def expected(trial: Trial, *assignments: str) -> dict[str, float]:
    return estimate(trial, params(*SMALL, *assignments)[1])


def test_a_trial_measures_each_stage_on_few_problems(trial: Trial) -> None:
    stages = {"problems", "coldstart", "bootstrap", "search", "collect", "reward"}
    assert set(trial.seconds) == stages
    assert min(trial.gradient, *trial.seconds.values()) > 0
    assert trial.searched.problems.train == 8
    assert completions(trial.searched) == 8 * 4 + 4 * 2


def test_what_is_sampled_twice_as_often_takes_twice_as_long(trial: Trial) -> None:
    once, twice = expected(trial), expected(trial, "problems.test=16")
    assert twice["evaluate"] == pytest.approx(2 * once["evaluate"])
    assert expected(trial, "grpo.epochs=12")["update"] == pytest.approx(2 * once["update"])
    more = expected(trial, "problems.train=24", "influence.selection=none")
    assert more["search"] == pytest.approx(once["search"] * 24 * 4 / (12 * 4 + 4 * 2))
    assert more["update"] == pytest.approx(once["update"] * 24 * 4 / (12 * 4 + 4 * 2))


def test_where_nothing_is_selected_select_takes_no_time(trial: Trial) -> None:
    assert expected(trial, "influence.selection=none")["select"] == 0
    assert expected(trial, "influence.selection=none")["search"] < expected(trial)["search"]


def test_the_start_of_a_policy_from_scratch_grows_with_its_problems(trial: Trial) -> None:
    once = expected(trial)
    assert expected(trial, "problems.train=24")["bootstrap"] == pytest.approx(2 * once["bootstrap"])
    base = expected(trial, "problems.train=24", "policy.base=some/model")
    assert base["bootstrap"] == pytest.approx(once["bootstrap"])
