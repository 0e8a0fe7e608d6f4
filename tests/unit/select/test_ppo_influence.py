"""Influence where each token has an advantage: of PPO's loss at its first step, value loss and all."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tasks.artifacts import read_jsonl
from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.params.params import Params
from tasks.params.sections import Ppo
from tasks.ppo.losses import first_step_losses
from tasks.ppo.value_head import write_head
from tasks.records.selection import Selected
from tasks.select.certificate import certify
from tasks.select.tracin import Influences, influences
from tests.support.critics import critic_scorer, random_head, with_token_targets
from tests.support.influence import BY_TOKEN, gradient_of, stepped
from tests.support.ppo_params import ppo_params
from tests.support.selection_params import kept, numbers, params, run_selection
from tests.support.update_params import grpo_params
from tests.support.validation import advantage_validation


def targeted(policy: Policy, samples: list[Sample], ppo: Ppo, head: Any) -> list[Sample]:
    return with_token_targets(critic_scorer(policy, head), samples, ppo)


def of_ppo(
    policy: Policy, samples: list[Sample], others: list[Sample], ppo: Ppo, head: Any, **options: Any
) -> Influences:
    """Their influence on the others."""
    scorer, losses = critic_scorer(policy, head.requires_grad_(False)), partial(first_step_losses, ppo)
    validation = advantage_validation(others)
    return influences(scorer, samples, BY_TOKEN, validation, token_losses=losses, **options)


def test_it_predicts_what_a_small_step_does_to_the_validation_loss(
    exact: Policy, samples: list[Sample], others: list[Sample]
) -> None:
    """Finite differences of -Σ A_last Σ log p / M along the gradient of one sample's loss; and the certificate."""
    ppo, head = ppo_params(lam=0.9, value_weight=0.4), random_head(exact)
    samples, others = targeted(exact, samples, ppo, head), targeted(exact, others, ppo, head)
    found = of_ppo(exact, samples, others, ppo, head).samples
    scorer = critic_scorer(exact, head)
    tokens, after = sum(len(s.completion) for s in samples), sum(len(s.completion) for s in others)

    def validation_loss() -> float:
        sums = scorer.score(MicroBatch("rows", [[s] for s in others])).logprobs.sum(1)
        return -float(sums @ sums.new_tensor([s.advantage for s in others])) / after

    for sample, one in list(zip(samples, found, strict=True))[:4]:
        losses = first_step_losses(ppo, [sample], scorer.score(MicroBatch("rows", [[sample]])))
        gradient = gradient_of(exact, losses.sum() / tokens)
        values = []
        for rate in (1e-5, -1e-5):
            with stepped(exact, gradient, rate):
                values.append(validation_loss())
        assert (values[1] - values[0]) / 2e-5 == pytest.approx(one.influence, rel=1e-4)

    products = [one.product or 0.0 for one in found]
    validation = advantage_validation(others)
    right = certify(scorer, samples, products, validation, grpo_params(), 64, 0, ppo)
    assert right.slope == pytest.approx(-1, abs=1e-3)
    assert right.steps == 2
    without = certify(replace(scorer, value_head=None), samples, products, validation, grpo_params(), 64, 0)
    assert abs(without.slope + 1) > 1e-2  # of -A_last Σ log p alone: not the loss that was measured


# --- the stage


def ppo_select(update: dict[str, Any] | None = None, ppo: dict[str, Any] | None = None, **influence: Any) -> Params:
    plain = params({"beta": 0.0} | (update or {}), **influence)
    section = plain.ppo.model_copy(update=ppo or {})
    return plain.model_copy(update={"algorithm": "ppo", "ppo": section})


def test_the_stage_selects_by_it_with_a_certificate(layout: Layout) -> None:
    write_head(layout.value_head(0), random_head(load_policy(layout.policy(0))))
    run_selection(layout, ppo_select())
    assert numbers(layout)["certificate_slope"] == pytest.approx(-1, abs=0.05)
    assert numbers(layout)["certificate_signs"] == 1
    lines = read_jsonl(layout.selection(1), Selected)
    failed = [line.member == 2 and line.problem_id != "solved" for line in lines]
    assert all((line.influence == 0) == lost for line, lost in zip(lines, failed, strict=True))
    assert not any(line.selected for line, lost in zip(lines, failed, strict=True) if lost)
    assert {line.selected for line in lines} == {True, False}


@pytest.mark.usefixtures("plain_advantages")
def test_without_a_measure_every_sample_whose_reward_is_known_is_kept(layout: Layout) -> None:
    run_selection(layout, ppo_select(selection="none"))
    assert sum(kept(layout)) == 14
    assert numbers(layout)["samples"] == 18
