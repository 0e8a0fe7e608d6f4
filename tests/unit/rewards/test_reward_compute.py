"""Terms of the environment, which may be the user's own: one that breaks down is never a 0, and says why."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tasks.environments.tagged_answer import TaggedAnswer
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.params.sections import Rewards, UserTerm
from tasks.records import Problem, Result, Trajectory
from tasks.rewards.compute import compute_rewards, measure_terms
from tasks.rewards.weighted_sum import Failures

SHIPPED = load_params(Path(__file__).parents[3] / "params.yaml")
TEXTS = ["<think>\n2 + 3\n</think>\n<answer>\n5\n</answer>", "raise", "nan", "none", "<answer>5</answer>"]
GROUP = Trajectory(
    problem_id="p",
    split="train",
    problem=Problem(problem_id="p", question="2 and 3?", answer=5, source="test"),
    prompt="2 and 3?\n",
    workflow_codes=TEXTS,
    workflow_ids=TEXTS,
    proposers=["sample"] * len(TEXTS),
    results=[Result(status="ok", value=5)] * len(TEXTS),
    sibling_results=[[]] * len(TEXTS),
    tokens=[[1]] * len(TEXTS),
    logprobs=[[-0.1]] * len(TEXTS),
    policy_version="v",
)


def fragile(problem: Problem, text: str, results: Sequence[Result]) -> float | None:  # noqa: ARG001
    if text == "raise":
        raise ZeroDivisionError("by nothing")
    return {"nan": float("nan"), "none": None}.get(text, 1.0)


class Fragile(TaggedAnswer):
    """With a term more, that breaks down over some texts."""

    def __init__(self) -> None:
        super().__init__()
        self.terms = {**self.terms, "fragile": fragile}


def rewards(**changes: object) -> Rewards:
    return SHIPPED.rewards.model_copy(update=changes)


def test_a_term_that_breaks_down_leaves_its_member_without_a_reward(tmp_path: Path) -> None:
    params = SHIPPED.model_copy(update={"rewards": rewards(environment={"hard_format": 0.5, "fragile": 1.0})})
    (rewarded,), failure = compute_rewards(tmp_path, params, Fragile(), [GROUP], len(TEXTS))
    assert rewarded.reward_status == ["ok", "failed", "failed", "failed", "ok"]
    assert rewarded.rewards == [2.25, None, None, None, 2.125]
    assert rewarded.reward_terms["hard_format"] == [0.5, 0, 0, 0, 0.25]
    failures = Failures()
    failures.add(rewarded)
    failures.add_failure(failure)
    with pytest.raises(GraftError, match=r"3 rewards .*: fragile: ZeroDivisionError: by nothing; fix that term"):
        failures.check("trajectories.jsonl", 0.2)


def test_a_term_without_weight_is_not_called(tmp_path: Path) -> None:
    params = SHIPPED.model_copy(update={"rewards": rewards(environment={"hard_format": 0.5, "fragile": 0.0})})
    (rewarded,), failure = compute_rewards(tmp_path, params, Fragile(), [GROUP], len(TEXTS))
    assert set(rewarded.reward_status) == {"ok"}
    assert failure is None
    assert set(measure_terms(tmp_path, Fragile(), params.rewards, [GROUP], len(TEXTS))) == {"hard_format"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment": {"marks": 1.0}}, r"rewards\.environment: no term 'marks' .*; it has hard_format, mark"),
        (
            {"own": [UserTerm(name="mark", term="manners:polite", weight=1.0)]},
            r"rewards\.own: 'mark' is the name of a term of the environment; choose another",
        ),
    ],
)
def test_a_wrong_name_is_told_before_anything_is_called(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    params = SHIPPED.model_copy(update={"rewards": rewards(**changes)})
    with pytest.raises(GraftError, match=message):
        compute_rewards(tmp_path, params, TaggedAnswer(), [GROUP], len(TEXTS))
