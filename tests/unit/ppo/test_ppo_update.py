"""Laws of an update with a value head: its first step, its gradient, what it learns, and that it resumes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.model import training_checkpoint as checkpoint
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import RowLayout
from tasks.model.training_checkpoint import Checkpoint, TrainingState
from tasks.objective.recorded_logprobs import Logprobs, behaviour_logprobs, sample_key, score_samples
from tasks.params.sections import Ppo
from tasks.ppo.losses import with_ppo_objective
from tasks.ppo.value_head import zero_head
from tasks.update.gradient import TokenSums, accumulate_gradient
from tasks.update.metrics import Metrics, round_metrics
from tasks.update.step_plan import plan_steps
from tasks.update.update import train
from tests.support.critics import critic_scorer, random_head, with_token_targets
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.ppo_params import ppo_params
from tests.support.stage_params import shipped_params
from tests.support.update_params import grpo_params
from tests.support.updates import TRAINING_LAYOUTS, gradient_of, groups_of, reference_scores, weights_of

Learn = Callable[..., tuple[torch.Tensor, list[Metrics]]]


def off_policy(behaviour: Logprobs, samples: list[Sample], noise: float = 0.3) -> Logprobs:
    """Ratios other than 1, the same in whatever order the samples are."""
    generator, found = torch.Generator().manual_seed(3), {}
    for key, length in sorted((sample_key(s), len(s.completion)) for s in samples):
        found[key] = behaviour[key] + noise * torch.randn(length, generator=generator)
    return found


def gradients(
    policy: Policy, samples: list[Sample], ppo: Ppo, layout: RowLayout = "packed", tokens: int = 2048, **changes: Any
) -> tuple[torch.Tensor, TokenSums]:
    """Of one step on samples from another policy: of the policy's weights and of its head's, and the sums."""
    head = random_head(policy)
    targeted = with_token_targets(critic_scorer(policy, head), samples, ppo)
    scorer = critic_scorer(policy, head, layout, tokens)
    behaviour = off_policy(behaviour_logprobs(scorer, targeted), samples)
    policy.model.zero_grad()
    sums = accumulate_gradient(scorer, groups_of(targeted), behaviour, None, grpo_params(**changes), ppo)
    own = torch.cat([weight.grad.flatten() for weight in head.parameters()])
    return torch.cat([gradient_of(policy), own]), sums


@pytest.mark.parametrize("layout", TRAINING_LAYOUTS)
@pytest.mark.parametrize("tokens", [64, 2048])
def test_micro_batches_and_layouts_change_nothing(
    policy: Policy, samples: list[Sample], layout: RowLayout, tokens: int
) -> None:
    ppo = ppo_params(lam=0.9)
    expected, sums = gradients(policy, samples, ppo)
    found, others = gradients(policy, samples[::-1], ppo, layout, tokens)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert vars(others) == pytest.approx(vars(sums), rel=1e-4, abs=1e-6)


def test_the_gradient_is_that_of_the_formula_by_autograd(policy: Policy, samples: list[Sample]) -> None:
    """Over the adapter and the head, with plain forward passes of one sample each."""
    ppo = ppo_params(value_weight=0.4, lam=0.9)
    found, _ = gradients(policy, samples, ppo)
    head = random_head(policy)
    targeted = with_token_targets(critic_scorer(policy, head), samples, ppo)
    behaviour = off_policy(score_samples(critic_scorer(policy, head), samples), samples)
    total = torch.zeros(())
    for s in targeted:
        assert s.targets is not None
        ids = torch.tensor([[*s.prompt, *s.completion]])
        out = policy.model(input_ids=ids, output_hidden_states=True)
        places = slice(len(s.prompt) - 1, -1)
        logprobs = (out.logits[0, places] / 0.7).log_softmax(-1).gather(-1, ids[0, len(s.prompt) :, None])[:, 0]
        v = head(out.hidden_states[-1][0, places])[:, 0]
        a, r = (torch.tensor(own) for own in (s.targets.advantages, s.targets.returns))
        ratio = (logprobs - behaviour[sample_key(s)]).exp()
        surrogate = -torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a)
        total = total + (surrogate + 0.4 * 0.5 * (v - r) ** 2).sum()
    loss = total / sum(len(s.completion) for s in samples)
    trained = [p for p in policy.model.parameters() if p.requires_grad]
    expected = torch.autograd.grad(loss, [*trained, *head.parameters()])
    torch.testing.assert_close(found, torch.cat([g.flatten() for g in expected]), rtol=1e-4, atol=1e-6)


@pytest.fixture
def learn(make_policy: MakePolicy, make_samples: MakeSamples) -> Learn:
    """learn(checkpoint, epochs, **ppo): the weights after an update of the same batch, head last, and its rows."""

    def trained(kept: Checkpoint | None = None, epochs: int = 4, **changes: Any) -> tuple[torch.Tensor, list[Metrics]]:
        policy, ppo = make_policy(), ppo_params(**{"value_rate": 0.05} | changes)
        head = zero_head(policy)
        scorer = critic_scorer(policy, head)
        samples = with_token_targets(scorer, make_samples(), ppo)
        reference = reference_scores(scorer, samples)
        params = grpo_params(epochs=epochs, learning_rate=0.002, beta=0.1)
        steps = plan_steps(groups_of(samples), epochs, 4, seed=0)[0]
        rows, _ = train(scorer, steps, params, reference, kept, ppo=ppo)
        return torch.cat([weights_of(policy), *(w.detach().flatten() for w in head.parameters())]), rows

    return trained


def test_at_the_first_step_nothing_is_clipped_and_every_ratio_is_1(learn: Learn) -> None:
    row = learn()[1][0]
    assert row["ratio"] == pytest.approx(1, abs=1e-5)
    assert (row["clip_ratio/low_mean"], row["clip_ratio/high_mean"]) == (0, 0)
    assert (row["value"], row["explained_variance"]) == pytest.approx((0, 0))
    assert row["kl_loss"] == 0
    assert row["kl"] > 0
    assert row["loss"] == pytest.approx(row["policy_loss"] + row["value_loss"])


def test_the_variance_that_the_values_explain_rises_on_a_fixed_batch(learn: Learn) -> None:
    rows = learn(epochs=40)[1]
    assert rows[-1]["explained_variance"] > 0.5 > rows[5]["explained_variance"]
    assert rows[-1]["value_loss"] < rows[0]["value_loss"] / 2
    summary = round_metrics(rows, 0, [])
    assert rows[0]["explained_variance"] < summary["explained_variance"] < rows[-1]["explained_variance"]


def test_it_goes_on_from_a_checkpoint_with_the_same_bits(
    learn: Learn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 0.0)
    weights, rows = learn()

    class CutCheckpoint(Checkpoint):
        def keep(self, training: TrainingState) -> None:
            super().keep(training)
            assert {"value_head.weight", "value_head.bias"} < training.weights.keys()
            if len(training.rows) == 2:
                raise ZeroDivisionError

    path = tmp_path / "update@1" / "name.pt"
    with pytest.raises(ZeroDivisionError):
        learn(CutCheckpoint(path))
    again, numbers = learn(Checkpoint(path))
    assert torch.equal(again, weights)
    assert numbers == rows


def test_algorithm_ppo_fixes_what_the_surrogate_of_grpo_leaves_open() -> None:
    params = shipped_params(algorithm="ppo", update={"loss": "sapo", "importance": "sequence"})
    found = with_ppo_objective(params).update
    assert (found.loss, found.importance, found.clip_low, found.clip_high) == ("dapo", "token", 0.2, 0.2)
    assert with_ppo_objective(shipped_params()) == shipped_params()
