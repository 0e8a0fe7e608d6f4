"""The benchmark of whole steps: both sides do the same work, and the figures are what their names say."""

import pytest

from benchmarks.grpo_step import StepStatistics, figures, measure, name_of, table
from benchmarks.step_sides import Shape, lengths_of, prompts_of

pytestmark = pytest.mark.nightly

SHAPE = Shape(8, skewed=True, threads=1, vocabulary=64, hidden=32, layers=1, intermediate=32, common=5)


def test_both_sides_take_whole_steps_of_the_prescribed_lengths() -> None:
    """Each side ends with an error where it draws another number of tokens."""
    sides = measure(SHAPE, steps=1)
    assert list(sides) == ["trl", "graft"]
    for side in sides.values():
        assert side.cpu > 0
        assert side.memory > 0
        assert 0.5 * side.cpu < sum(side.parts.values()) <= side.cpu * 1.01


def test_skewed_lengths_are_short_but_for_one_and_the_same_each_time() -> None:
    lengths = lengths_of(SHAPE, 3)
    assert lengths == lengths_of(SHAPE, 3) != lengths_of(SHAPE, 4)
    assert len(lengths) == SHAPE.prompts * SHAPE.completions
    assert max(lengths) == SHAPE.longest
    assert sorted(lengths)[len(lengths) // 2] < SHAPE.longest / 4


def test_prompts_begin_alike_and_go_on_differently() -> None:
    prompts = prompts_of(SHAPE, 20)
    assert {len(prompt) for prompt in prompts} == {SHAPE.prompt}
    assert len({tuple(prompt[: SHAPE.common]) for prompt in prompts}) == 1
    assert len({tuple(prompt[SHAPE.common :]) for prompt in prompts}) > 15


def test_figures_are_ratios_of_the_shapes_with_one_thread() -> None:
    rows = {
        Shape(prompt, skewed, threads, vocabulary=64): {
            "trl": StepStatistics(cpu=6.0, wall=6.0, memory=100.0, parts={"sample": 3.0}),
            "graft": StepStatistics(cpu=2.0 if skewed else 3.0, wall=2.0, memory=40.0 if skewed else 50.0, parts={}),
        }
        for prompt in (32, 256)
        for skewed in (False, True)
        for threads in (1, 2)
    }
    assert {name_of(shape) for shape in rows} == {"p32_full", "p32_skewed", "p256_full", "p256_skewed"}
    assert figures(rows) == {
        "step_speedup_p32_full": 2.0,
        "step_speedup_p32_skewed": 3.0,
        "step_speedup_p256_full": 2.0,
        "step_speedup_p256_skewed": 3.0,
        "peak_memory_ratio": 0.5,
    }
    assert table("title", rows, steps=1).row_count == 2 * len(rows)
