"""With top_p and top_k the ratio begins at 1, stays that of the sampled distribution, and influence predicts a step."""

from dataclasses import replace
from typing import Any

import pytest

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import scorer_for, with_constant_prompts
from tasks.objective.recorded_logprobs import score_samples
from tasks.update.step_plan import plan_steps
from tasks.update.update import train
from tests.support.influence import certificate_of, products_of, scorer_of
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.truncated_samples import drawn
from tests.support.update_params import grpo_params
from tests.support.updates import groups_of
from tests.support.validation import advantage_validation

TEMPERATURE = 0.7


def first_step(policy: Policy, samples: list[Sample], **changes: Any) -> dict[str, float]:
    params = grpo_params(epochs=1, prompts_per_step=100, **changes)
    scorer = scorer_for(policy, samples, TEMPERATURE)
    steps, _ = plan_steps(groups_of(samples), params.epochs, params.prompts_per_step, seed=0)
    return train(scorer, steps, params, score_samples(scorer, samples))[0][0]


@pytest.mark.parametrize(("kind", "own"), [("qwen2", None), ("gpt2", 1.2)])
def test_the_first_ratio_is_one(
    kind: str, own: float | None, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    """Also where the samples of one problem have a temperature of their own."""
    asked = [replace(s, temperature=own if s.problem_id == "p1" else None) for s in make_samples()]
    samples = drawn(make_policy(kind), asked, TEMPERATURE)
    row = first_step(make_policy(kind), samples, beta=0.1)
    assert row["ratio"] == pytest.approx(1, abs=1e-5)
    assert row["kl"] == pytest.approx(0, abs=1e-6)  # the reference is scored over the same sets
    whole = first_step(make_policy(kind), [replace(s, kept=()) for s in samples], beta=0.1)
    assert whole["ratio"] < 0.97  # the kept mass: what others have where 1 belongs


@pytest.mark.parametrize("constant", [False, True])
def test_influence_predicts_a_step(constant: bool, make_policy: MakePolicy, make_samples: MakeSamples) -> None:
    policy = make_policy(dtype="float64")
    asked = [replace(s, temperature=1.2 if s.problem_id == "p1" else None) for s in make_samples(problems=8, seed=1)]
    training = drawn(policy, asked, TEMPERATURE)
    held_out = drawn(policy, make_samples(problems=16, seed=2), TEMPERATURE)
    scorer, validation = scorer_of(policy), advantage_validation(held_out)
    if constant:
        scorer = with_constant_prompts(scorer, [*training, *held_out])
    certificate = certificate_of(scorer, training, products_of(scorer, training, validation), validation)
    assert (certificate.steps, certificate.sign_agreement) == (2, 1.0)
    assert certificate.slope == pytest.approx(-1, abs=0.001)
