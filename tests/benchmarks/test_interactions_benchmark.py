"""The cells, results and tables of benchmarks.interactions."""

import json
from pathlib import Path

import pytest

from benchmarks.interactions.__main__ import START, TABLES, cells_of, digest, mean, print_tables, read_results
from benchmarks.interactions.cells import params_of
from tasks.errors import GraftError

pytestmark = pytest.mark.nightly

FIGURES = {"p_legal/sampled": 0.5, "p_best_move/sampled": 0.25, "p_legal/greedy": 0.75, "kl": 0.01}


def test_a_table_has_nine_cells_of_params_that_are_valid() -> None:
    for title in TABLES:
        cells = cells_of(title)
        assert len(set(cells)) == 9
        assert len({params_of(0, cell).model_dump_json() for cell in cells}) == 9


def test_a_result_counts_for_its_own_cell_and_seed_alone(tmp_path: Path) -> None:
    wanted = [(cell, seed) for cell in cells_of("beta × learning rate") for seed in (0, 1)]
    assert len({digest(*each) for each in wanted}) == len(wanted)
    path = tmp_path / "results.jsonl"
    assert read_results(path, wanted) == {}
    lines = [{"digest": digest(*wanted[3]), "figures": FIGURES}, {"digest": "of an older revision", "figures": {}}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_results(path, wanted) == {wanted[3]: FIGURES}
    path.write_text("[1]\n")
    with pytest.raises(GraftError, match=r"results\.jsonl:1: no result of a run; delete the line$"):
        read_results(path, wanted)


def test_the_tables_have_the_means_over_the_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    title = "temperature × advantages"
    results = {(cell, seed): FIGURES | {"kl": seed / 10} for cell in (START, *cells_of(title)) for seed in (1, 2)}
    assert mean(results, cells_of(title)[0], "kl") == pytest.approx(0.15)
    print_tables([title], results)
    shown = capsys.readouterr().out
    assert f"{title}: legal moves, sampled (before: 0.500)" in shown
    assert shown.count("0.150") == 9
    print_tables([title], {key: figures | {"kl": 0.0} for key, figures in results.items()})
    assert "KL" not in capsys.readouterr().out
