"""The benchmark of the pretrained model: the figures are what their names say, and both samplers do the same work."""

from pathlib import Path

import pytest

from benchmarks.learning import LearningRun
from benchmarks.real_model import decode_figures, learning_figures, step_figures, take_turns
from benchmarks.support.decode_sides import Decoding
from tests.support.models import save_base
from tests.support.policies import MakePolicy

pytestmark = pytest.mark.nightly


def run(before: float, after: float) -> LearningRun:
    names = ("pass_at_1_greedy", "pass_at_1_greedy_unseen", "pass_at_10", "cut")
    return LearningRun(dict.fromkeys(names, before), dict.fromkeys(names, after), 120.0)


def test_learning_is_told_by_its_mean_and_its_worst_seed() -> None:
    figures = learning_figures([run(0.25, 0.5), run(0.25, 0.25)])
    assert (figures["greedy_gain"], figures["unseen_gain"], figures["pass_at_10_gain"]) == (0.125, 0.125, 0.125)
    assert (figures["greedy_gain_worst"], figures["unseen_gain_worst"], figures["pass_at_10_gain_worst"]) == (0, 0, 0)
    assert (figures["cut_share_before"], figures["cut_share_after"], figures["minutes"]) == (0.25, 0.375, 2.0)


def test_speed_is_told_by_the_worst_shape() -> None:
    def sides(trl: float, graft: float) -> dict[str, list[dict[str, float]]]:
        return {
            "trl": [{"cpu": trl * 2, "memory": 100.0}, {"cpu": trl, "memory": 100.0}],
            "graft": [{"cpu": graft, "memory": 20.0}, {"cpu": graft, "memory": 20.0}],
        }

    assert step_figures([sides(8, 1), sides(6, 1)]) == {
        "step_speedup_first": 12,
        "step_speedup": 6,
        "peak_memory_ratio": 0.2,
    }
    turns = {name: [{"tokens": 10, "cpu": seconds}] * 2 for name, seconds in (("graft", 1.0), ("ctranslate2", 2.0))}
    assert decode_figures(turns)["decode_vs_peer"] == 2


def test_both_samplers_draw_all_tokens(tmp_path: Path, make_policy: MakePolicy) -> None:
    pytest.importorskip("ctranslate2")
    base = save_base(make_policy, tmp_path)
    turns = take_turns("benchmarks.support.decode_sides", ("graft", "ctranslate2"), Decoding(str(base), 3, 4, 5, 1), 2)
    assert [turn["tokens"] for own in turns.values() for turn in own] == [15] * 4
