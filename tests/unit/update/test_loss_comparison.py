"""Two losses side by side are what each is alone."""

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for
from tasks.objective.losses import MANUAL
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs, score_samples
from tasks.params.update import Update
from tasks.update.diagnostics.loss_comparison import LossComparison, compare_losses
from tasks.update.diagnostics.one_step import PARTS, gradient_norms
from tasks.update.step_plan import UpdateGroup
from tests.support.update_params import grpo_params
from tests.support.updates import weights_of

GRPO = grpo_params(loss="grpo", beta=0.1)
SAME = GRPO.model_copy(update=MANUAL)


def set_up(policy: Policy, samples: list[Sample]) -> tuple[Scorer, list[UpdateGroup], Logprobs]:
    """Groups with the denominators of a mean over completions; the reference is the adapter switched off."""
    scorer = scorer_for(policy, samples, 0.7)
    with policy.model.disable_adapter():
        reference = score_samples(scorer, samples)
    return scorer, [UpdateGroup("all", samples, len(samples))], reference


def compared(policy: Policy, samples: list[Sample], first: Update, second: Update) -> LossComparison:
    scorer, groups, reference = set_up(policy, samples)
    found = compare_losses(scorer, (groups, first), (groups, second), reference)
    assert found is not None
    return found


def test_a_loss_and_itself_are_the_same(policy: Policy, samples: list[Sample]) -> None:
    found = compared(policy, samples, GRPO, GRPO)
    assert found.sides[0] == found.sides[1]
    assert list(found.cosines.values()) == pytest.approx([1, 1, 1], abs=1e-6)
    assert list(found.differences.values()) == pytest.approx([0, 0, 0], abs=1e-6)


def test_the_manual_loss_has_grpos_policy_gradient_and_another_kl(policy: Policy, samples: list[Sample]) -> None:
    found = compared(policy, samples, GRPO, SAME)
    assert found.cosines["policy"] == pytest.approx(1, abs=1e-5)
    assert found.differences["policy"] == pytest.approx(0, abs=1e-4)
    kl = found.cosines["kl"]
    assert kl is not None
    assert kl < 0.9
    update, manual = found.sides
    assert (update.title, manual.title) == ("grpo, k3", "reinforce, k1")
    assert update.kl > 0
    assert abs(manual.policy_loss - update.policy_loss) > 0.01


def test_each_side_is_the_gradient_that_its_update_takes(policy: Policy, samples: list[Sample]) -> None:
    before = weights_of(policy)
    found = compared(policy, samples, GRPO, SAME)
    scorer, groups, reference = set_up(policy, samples)
    for side, params in zip(found.sides, (GRPO, SAME), strict=True):
        norms, sums = gradient_norms(scorer, groups, behaviour_logprobs(scorer, samples), reference, params)
        assert [side.norms[part] for part in PARTS] == pytest.approx([norms.whole, norms.policy, norms.kl])
        assert (side.loss, side.kl_loss) == pytest.approx((sums.loss, sums.kl_loss))
    scorer.model.zero_grad()
    assert torch.equal(weights_of(policy), before)


def test_without_a_kl_or_without_samples_there_is_nothing_to_compare(policy: Policy, samples: list[Sample]) -> None:
    scorer, groups, _ = set_up(policy, samples)
    found = compare_losses(scorer, (groups, grpo_params()), (groups, grpo_params(loss="sapo")), None)
    assert found is not None
    assert (found.sides[0].norms["kl"], found.cosines["kl"], found.differences["kl"]) == (0.0, None, None)
    assert compare_losses(scorer, ([], GRPO), ([], SAME), None) is None
