"""Terms of the environment, which may be the user's own: a failure is never a 0, and it names its cause."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tasks.environments.lookup import environment_of
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.errors import GraftError
from tasks.params.sections import UserTerm
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.reward.compute import compute_rewards, measure_terms
from tasks.reward.weighted_sum import Failures
from tests.support.groups import make_group
from tests.support.stage_params import shipped_params

TEXTS = ["<think>\n2 + 3\n</think>\n<answer>\n5\n</answer>", "raise", "nan", "none", "text", "<answer>5</answer>"]
GROUP = make_group(TEXTS, [Result(status="ok", value=5)] * len(TEXTS))


def fragile(problem: Problem, text: str, results: Sequence[Result]) -> Any:  # noqa: ARG001
    if text == "raise":
        raise ZeroDivisionError("by nothing")
    return {"nan": float("nan"), "none": None, "text": "1.0"}.get(text, Decimal(1))


class Fragile(TaggedAnswer):
    """With one more term, which fails on some texts."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.terms = {**self.terms, "fragile": fragile}
        self.weights = {"hard_format": 0.5, "mark": 0.0, "fragile": weight}


def test_a_term_that_fails_leaves_its_member_without_a_reward(tmp_path: Path) -> None:
    (rewarded,), failure, error = compute_rewards(tmp_path, shipped_params(), Fragile(1.0), [GROUP], len(TEXTS), 0.2)
    assert [reward.status for reward in rewarded.rewards] == ["ok", *["failed"] * 4, "ok"]
    assert [reward.reward for reward in rewarded.rewards] == [2.25, *[None] * 4, 2.125]
    assert [reward.terms["hard_format"] for reward in rewarded.rewards] == [0.5, 0, 0, 0, 0, 0.25]
    assert error == "fragile: ZeroDivisionError: by nothing"
    failures = Failures()
    failures.add(rewarded)
    failures.add_failure(failure)
    with pytest.raises(GraftError, match=r"4 rewards .*: fragile: ZeroDivisionError: by nothing; fix that term"):
        failures.check("trajectories.jsonl", 0.2)


def test_a_term_without_weight_is_not_called(tmp_path: Path) -> None:
    params = shipped_params()
    (rewarded,), failure, _ = compute_rewards(tmp_path, params, Fragile(0.0), [GROUP], len(TEXTS), 0.2)
    assert {reward.status for reward in rewarded.rewards} == {"ok"}
    assert failure is None
    assert set(measure_terms(tmp_path, Fragile(0.0), params.rewards, [GROUP], len(TEXTS), 0.2)) == {"hard_format"}


def test_a_wrong_name_is_reported_before_anything_is_called(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match=r"environment\.weights\.marks: .* 'mark' or 'steps', not 'marks'"):
        environment_of("answer", weights={"marks": 1.0})
    with pytest.raises(GraftError, match=r"environment\.weights: .* workflow has no such param; its params: stories, "):
        environment_of("workflow", weights={"mark": 1.0})
    own = [UserTerm(name="mark", term="manners:polite", weight=1.0)]
    message = r"rewards\.own: 'mark' is the name of a term of the environment; choose another"
    with pytest.raises(GraftError, match=message):
        compute_rewards(tmp_path, shipped_params(rewards={"own": own}), TaggedAnswer(), [GROUP], len(TEXTS), 0.2)


@pytest.mark.parametrize(
    ("weights", "full"), [({}, 0.5 + 0.5), ({"mark": 0.2}, 0.5 + 0.2 * 0.5), ({"steps": 2.0}, 0.5 + 0.5 + 2)]
)
def test_the_form_and_the_marks_earn_a_half_each_unless_weights_say_otherwise(
    tmp_path: Path, weights: dict[str, float], full: float
) -> None:
    """The lenient format rewards: 0.5 for the form and 0.125 for each of four marks, besides correctness."""
    text = TEXTS[0].replace("2 + 3", "2 + 3 = 5")
    group = make_group([text, "5"], [Result(status="ok", value=5), Result(status="ok", value=6)])
    (rewarded,), *_ = compute_rewards(
        tmp_path, shipped_params(), environment_of("answer", weights=weights), [group], 2, 0.2
    )
    assert rewarded.rewards[0].reward == pytest.approx(1 + full)
    assert rewarded.rewards[1].reward == pytest.approx(weights.get("steps", 0) * 0.5)
