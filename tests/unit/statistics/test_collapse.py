"""The signs of a collapse and their params; metrics of a healthy round have none."""

import pytest

from tasks.statistics.collapse import collapse_remarks

HEALTHY = {"train": 24, "commonest_share": 0.3, "entropy": 0.4, "completions/clipped_ratio": 0.5}


def test_a_healthy_round_has_no_remark() -> None:
    assert collapse_remarks(HEALTHY) == collapse_remarks({}) == []


@pytest.mark.parametrize(("sign", "level", "told", "param"), [
    ("commonest_share", 285 / 288, "99% of the completions, over all problems, are the same", "update.negative_weight"),
    ("entropy", 0.037, "entropy of a token is 0.037", "update.learning_rate"),
    ("completions/clipped_ratio", 0.997, "100% of the completions are cut", "update.truncated"),
])  # fmt: skip
def test_each_sign_has_a_remark_that_names_a_param(sign: str, level: float, told: str, param: str) -> None:
    (remark,) = collapse_remarks(HEALTHY | {sign: level})
    assert told in remark
    assert param in remark


def test_the_one_solution_of_a_few_problems_is_no_collapse() -> None:
    assert collapse_remarks(HEALTHY | {"train": 7, "commonest_share": 1.0}) == []
