"""The certificate holds where influence is right and catches it where it is wrong."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest
import torch

from tasks.errors import GraftError
from tasks.influence import certificate
from tasks.influence import gradient_passes as passes
from tasks.influence import loss_gradients as losses
from tasks.influence import projections as hearing
from tasks.influence.certificate import Certificate, certify, check_self_influence
from tasks.influence.gradient_algebra import products
from tasks.influence.loss_gradients import loss_gradient
from tasks.influence.tracin import influences
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tests.support.validation import advantage_validation

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]

BY_TOKEN = TokenWeights("dapo", longest=64)


def certified(
    policy: Policy, make_samples: MakeSamples, averaging: TokenWeights = BY_TOKEN, meanwhile: Callable[[], Any] = dict
) -> Certificate:
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)
    training, validation = make_samples(problems=8, seed=1), make_samples(problems=16, seed=2)
    judges = advantage_validation(validation, averaging)
    found = [s.product or 0.0 for s in influences(scorer, training, averaging, judges).each]
    meanwhile()
    return certify(scorer, training, found, averaging, judges, seed=0)


@pytest.mark.parametrize("loss", ["dapo", "grpo", "dr_grpo"])
@pytest.mark.parametrize(("kind", "dtype"), [("gpt2", "float64"), ("qwen2", "float32"), ("llama", "float32")])
def test_what_influence_predicts_is_what_happens(
    kind: str, dtype: str, loss: Any, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    found = certified(make_policy(kind, dtype), make_samples, TokenWeights(loss, longest=64))
    assert found.slope == pytest.approx(-1, abs=0.001 if dtype == "float64" else 0.02)
    assert (found.sign_agreement, found.steps) == (1.0, 2)
    found.check()


@pytest.mark.filterwarnings("error:Converting a tensor")
def test_the_policy_is_left_as_it_was_to_the_last_bit(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy = make_policy()
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    certified(policy, make_samples)
    assert all(torch.equal(value, before[name]) for name, value in policy.model.state_dict().items())
    assert all(weight.grad is None for weight in policy.model.parameters())


def wrong_sign(scores: Any, direction: Any) -> Any:
    return -products(scores, direction)


def objective_for_loss(*given: Any, **options: Any) -> Any:
    return {name: -value for name, value in loss_gradient(*given, **options).items()}


def wrong_mask(own: passes.GradientPasses, batch: Any) -> Any:
    """Without each completion's first token."""
    return own._scorer.score(batch).logprobs[:, 1:].sum(1)


PLANTED = {
    "a sign error": (hearing, "products", wrong_sign),
    "an objective for a loss": (losses, "loss_gradient", objective_for_loss),
    "a wrong mask": (passes.GradientPasses, "_sums", wrong_mask),
}


@pytest.mark.parametrize("fault", [*PLANTED, "a stale policy"])
def test_a_planted_fault_is_caught(fault: str, make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy = make_policy()

    def move_on() -> None:
        """What an update would have done since."""
        with torch.no_grad():
            for name, weight in policy.model.named_parameters():
                if "lora_" in name:
                    weight += torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name))) * 0.3

    stale = fault == "a stale policy"
    with nullcontext() if stale else patch.object(*PLANTED[fault]):
        found = certified(policy, make_samples, meanwhile=move_on if stale else dict)
    with pytest.raises(GraftError, match=r"cannot be trusted to select; set influence\.selection to none"):
        found.check()


def test_where_nothing_has_influence_nothing_is_tried(make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy, samples = make_policy(), make_samples()
    scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)
    found = certify(scorer, samples, [0.0] * len(samples), BY_TOKEN, advantage_validation(samples, BY_TOKEN), seed=0)
    assert found.steps == 0
    found.check()


def test_changes_that_drown_in_rounding_are_not_looked_at(
    make_policy: MakePolicy, make_samples: MakeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "STEP_LENGTHS", (1e-9,))
    assert certified(make_policy(), make_samples).steps == 0
    assert certified(make_policy("gpt2", "float64"), make_samples).slope == pytest.approx(-1, abs=0.001)


def test_a_step_that_drowns_is_taken_ten_times_as_long(
    make_policy: MakePolicy, make_samples: MakeSamples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate, "STEP_LENGTHS", (1e-9, 1e-3))
    found = certified(make_policy(), make_samples)
    assert found.steps == 2
    assert found.slope == pytest.approx(-1, abs=0.02)


@pytest.mark.parametrize("sign", [1, -1])
def test_samples_that_are_their_own_validation_help_themselves_on_average(sign: int) -> None:
    products = [sign * 0.5, sign * 0.1, -sign * 0.2]
    told = r"mean in the same batch is .* a sign is wrong"
    with nullcontext() if sign > 0 else pytest.raises(GraftError, match=told):
        check_self_influence(products, [-1.0, 2.0, 0.0], [-3.0, 6.0, 0.0])
    check_self_influence(products, [-1.0, 2.0, 0.0], [-3.0, 6.0, 1.0])  # other losses: nothing is known
