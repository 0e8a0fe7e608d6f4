"""Laws of the histogram of a round's influences, on seeded random rounds."""

import numpy as np
import pytest

from tasks.records.selection import Selected
from tasks.statistics.influence_histogram import BINS, influence_histogram


def line(advantage: float, influence: float | None, norm: float | None = 1.0, selected: bool = True) -> Selected:
    numbers = {"advantage": advantage, "influence": influence, "gradient_norm": norm, "selected": selected}
    return Selected(problem_id="p", member=0, workflow_id="w", **numbers)


def test_what_has_no_gradient_is_in_no_bin() -> None:
    lines = [line(1.0, 1e-9), line(-1.0, -2e-9), line(0.0, 0.0), line(1.0, 0.0, norm=0.0), line(1.0, None, norm=None)]
    assert sum(bin.selected + bin.not_selected for bin in influence_histogram(lines)) == 2


def test_where_influence_was_not_measured_or_validation_is_silent_there_is_none() -> None:
    assert influence_histogram([line(1.0, None, norm=None)]) == influence_histogram([line(1.0, 0.0)]) == []


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_every_sample_is_in_a_bin_of_its_sign(scale: float) -> None:
    rng = np.random.default_rng(0)
    values = scale * rng.standard_t(1.5, 500)
    selected = rng.random(500) < 0.3
    pairs = zip(values.tolist(), selected.tolist(), strict=True)
    bins = influence_histogram([line(1.0, value, selected=own) for value, own in pairs])
    assert len(bins) == BINS
    assert (bins[0].low, bins[-1].high) == (values.min(), values.max())
    for bin in bins:
        inside = (bin.low <= values) & ((values < bin.high) | (values == values.max()) & (bin is bins[-1]))
        assert (bin.selected, bin.not_selected) == ((inside & selected).sum(), (inside & ~selected).sum())
        assert bin.high <= 0 or bin.low >= 0
    assert sum(bin.selected + bin.not_selected for bin in bins) == 500
    assert sum(bin.selected for bin in bins if bin.low >= 0) == (selected & (values >= 0)).sum()
    inner = [bin.high for bin in bins[:-1]]
    assert inner == [-edge for edge in reversed(inner)]
    assert np.diff(inner) == pytest.approx(np.diff(inner).mean())


def test_one_influence_among_zeros_is_seen() -> None:
    bins = influence_histogram([line(1.0, value, selected=False) for value in [0.0] * 99 + [-2.0]])
    assert (bins[0].not_selected, bins[BINS // 2].not_selected) == (1, 99)
