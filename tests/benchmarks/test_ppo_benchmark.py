"""The runs, claims and tables of benchmarks.ppo."""

import pytest

from benchmarks.ppo.__main__ import print_claims, print_scores
from benchmarks.ppo.cells import (
    ALGORITHMS,
    BOTTOM,
    COMPLETIONS,
    LARGER,
    SAME_BATCH,
    SELECTIONS,
    SETTINGS,
    TOP,
    Cell,
    assignments_of,
    cells,
    digest,
)
from benchmarks.ppo.claims import CLAIMS, SEEDS, seed_differences, settled_share, verdict
from benchmarks.support.short_runs import Figures, params_of

pytestmark = pytest.mark.nightly


def results(seeds: int, gains: dict[str, float]) -> dict[Cell, Figures]:
    """Every run of some seeds: 0.5, with the gain of a selection over none; `noise` differs by seed alone."""
    found = {}
    for cell in cells(list(SETTINGS), list(range(seeds))):
        setting, selection, seed = SETTINGS[cell[0]], cell[2], cell[3]
        good = 0.5 + gains.get(selection, 0.0) + 0.01 * seed
        numbers = {setting.metric: setting.sign * good, "seconds": 1.0, "selected_share": 1.0}
        found[cell] = numbers | {"deviation_first": 0.3, "deviation_last": 0.2}
    return found


def test_every_run_has_params_of_its_own_and_as_many_completions() -> None:
    wanted = cells(list(SETTINGS), [0])
    assert len({digest(cell) for cell in wanted}) == len(wanted) == len(SETTINGS) * (1 + 2 * len(SELECTIONS))
    for cell in wanted:
        params = params_of(assignments_of(cell))
        assert params.search.simulations == params.search.samples == params.update.group_size
        if not cell[2]:
            continue
        assert params.algorithm == cell[1]
        own, held_out = params.influence, 0
        if own.selection not in ("none", "random") and own.validation == "held_out":
            held_out = own.n * own.completions
            assert own.n <= params.problems.validation
        assert params.search.problems is not None
        total = params.search.problems * params.search.samples + held_out
        most = params.search.problems * 20 if cell[2] == LARGER else COMPLETIONS
        assert most - params.search.samples < total <= most


def test_a_claim_holds_is_contradicted_or_is_not_confirmed() -> None:
    assert verdict([0.1] * SEEDS) == "holds"
    assert verdict([-0.1] * SEEDS) == "contradicted"
    assert verdict([0.1, -0.1] * SEEDS) == "not confirmed"
    assert verdict([0.1] * (SEEDS - 1)) == "open"


def test_claims_are_of_paired_differences_of_which_more_is_better() -> None:
    found = results(SEEDS, {SAME_BATCH: 0.2, BOTTOM: -0.1, TOP: 0.1})
    seeds = list(range(SEEDS))
    verdicts = {
        claim.sentence: {
            verdict(seed_differences(claim.difference, found, environment, seeds)) for environment in SETTINGS
        }
        for claim in CLAIMS
    }
    assert verdicts["so it is the fix for GRPO"] == verdicts["Same-batch selection works in PPO"] == {"holds"}
    assert verdicts["The sign is backwards"] == {"contradicted"}
    assert verdicts["16 validation samples are too few"] == {"not confirmed"}
    assert verdicts["The variance of the rewards should fall"] == {"holds"}
    assert settled_share(found, list(SETTINGS), seeds) == 1
    del found["chess", "grpo", SAME_BATCH, 0]
    assert settled_share(found, list(SETTINGS), seeds) == pytest.approx(1 - 3 / len(CLAIMS))


def test_the_tables_have_a_row_a_run_and_a_row_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    found = results(2, {SAME_BATCH: 0.2})
    print_scores("civil", found, [0, 1])
    shown = capsys.readouterr().out
    assert shown.count("+0.200") == len(ALGORITHMS)
    assert all(f"{algorithm}, {name}" in shown for algorithm in ALGORITHMS for name in SELECTIONS)
    print_claims({key: own for key, own in found.items() if key[0] != "chess"}, [0, 1])
    shown = capsys.readouterr().out
    assert shown.count("open") > len(CLAIMS)
    print_scores("civil", {}, [0])
    assert capsys.readouterr().out == ""
