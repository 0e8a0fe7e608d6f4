"""Laws of the GRPO loss."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.objective.losses import token_losses
from tasks.objective.surrogates import Objective

ROWS, WIDTH = 5, 7
LOSSES = ["dapo", "grpo", "dr_grpo", "cispo", "sapo", "reinforce"]


def objective(**changes: Any) -> Objective:
    loss: dict[str, Any] = {"loss": "dapo", "importance": "token", "clip_low": 0.2, "clip_high": 0.2}
    return Objective(**loss | {"beta": 0.1, "kl": "k3", "kl_correction": False, "entropy": 0.0} | changes)


def gradient_at(ratio: float, advantage: float, **changes: Any) -> float:
    """d loss / d log p of a single token that has become `ratio` times as likely."""
    logprobs = torch.tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    mask, zero = torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 1, dtype=torch.float64)
    gains = torch.tensor([advantage], dtype=torch.float64)
    tokens = token_losses(logprobs, zero, None, None, gains, mask, objective(**changes))
    return float(torch.autograd.grad(tokens.loss.sum(), logprobs)[0])


def random_rows(seed: int) -> dict[str, Any]:
    """Log-probabilities of one update, the policy having moved since sampling; the mask is ragged."""
    generator = torch.Generator().manual_seed(seed)
    behaviour = -3 * torch.rand(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    mask = torch.arange(WIDTH) < torch.randint(1, WIDTH + 1, (ROWS, 1), generator=generator)
    now, reference = behaviour + 0.5 * torch.randn(2, ROWS, WIDTH, generator=generator, dtype=torch.float64)
    gains = torch.randn(ROWS, generator=generator, dtype=torch.float64)
    rows = {"logprobs": now, "behaviour": behaviour, "reference": reference}
    return rows | {"entropies": None, "advantages": gains, "mask": mask}


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_each_token_is_the_formula_of_the_paper(seed: int) -> None:
    rows = random_rows(seed)
    tokens = token_losses(**rows, objective=objective(clip_high=0.3, beta=0.04))
    for i in range(ROWS):
        for t in range(WIDTH):
            lp, old, ref = (float(rows[name][i, t]) for name in ("logprobs", "behaviour", "reference"))
            advantage = float(rows["advantages"][i])
            ratio = math.exp(lp - old)
            k3 = math.exp(ref - lp) - (ref - lp) - 1
            gain = min(ratio * advantage, min(max(ratio, 0.8), 1.3) * advantage)
            real = bool(rows["mask"][i, t])
            assert float(tokens.loss[i, t]) == pytest.approx((-gain + 0.04 * k3) * real, abs=1e-12)
            assert float(tokens.kl[i, t]) == pytest.approx(k3 * real, abs=1e-12)
            assert float(tokens.ratio[i, t]) == pytest.approx(ratio * real, abs=1e-12)


@pytest.mark.parametrize(
    ("ratio", "advantage", "clipped"),
    [(1.0, 1.0, False), (1.5, 1.0, True), (1.5, -1.0, False), (0.5, 1.0, False), (0.5, -1.0, True), (1.5, 0.0, False)],
)
def test_a_clipped_token_has_no_gradient(ratio: float, advantage: float, clipped: bool) -> None:
    now, gain, mask = torch.tensor([[math.log(ratio)]]), torch.tensor([advantage]), torch.ones(1, 1, dtype=torch.bool)
    assert bool(token_losses(now, torch.zeros(1, 1), None, None, gain, mask, objective()).clipped) == clipped
    assert gradient_at(ratio, advantage) == pytest.approx(0.0 if clipped else -ratio * advantage)


@pytest.mark.parametrize("importance", ["token", "sequence"])
@pytest.mark.parametrize("loss", LOSSES)
def test_at_ratio_one_the_gradient_is_minus_the_advantage(loss: str, importance: str) -> None:
    """Which is why influence is measured on -A log p for every loss."""
    rows = random_rows(0) | {"reference": None}
    rows["logprobs"] = rows["behaviour"].clone().requires_grad_()
    tokens = token_losses(**rows, objective=objective(loss=loss, importance=importance))
    (gradient,) = torch.autograd.grad(tokens.loss.sum(), rows["logprobs"])
    torch.testing.assert_close(gradient, -rows["advantages"][:, None] * rows["mask"])


def test_k1_k2_k3_of_a_token_that_the_reference_finds_twice_as_likely() -> None:
    now, reference = torch.tensor([[math.log(0.25)]]), torch.tensor([[math.log(0.5)]])
    mask, gains = torch.ones(1, 1, dtype=torch.bool), torch.zeros(1)
    expected = {"k1": -math.log(2), "k2": math.log(2) ** 2 / 2, "k3": 2 - math.log(2) - 1}
    for kind, value in expected.items():
        tokens = token_losses(now, now, reference, None, gains, mask, objective(kl=kind, beta=0.5))
        assert float(tokens.kl) == pytest.approx(value)
        assert float(tokens.loss) == pytest.approx(0.5 * value)


@pytest.mark.parametrize(
    ("kind", "corrected"), [("k1", True), ("k2", True), ("k3", True), ("k1", False), ("k3", False)]
)
def test_with_the_correction_k1_and_k3_have_the_gradient_of_the_kl(kind: str, corrected: bool) -> None:
    """Averaged over every token that an older policy may have drawn, against the KL in closed form."""
    generator = torch.Generator().manual_seed(0)
    older, now, reference = torch.randn(3, 6, generator=generator, dtype=torch.float64).log_softmax(-1)
    logits = now.clone().requires_grad_()
    logprobs = logits.log_softmax(-1)
    chosen = objective(kl=kind, kl_correction=corrected, beta=1.0)
    mask, gains = torch.ones(6, 1, dtype=torch.bool), torch.zeros(6, dtype=torch.float64)
    tokens = token_losses(logprobs[:, None], older[:, None], reference[:, None], None, gains, mask, chosen)
    (estimated,) = torch.autograd.grad((tokens.loss[:, 0] * older.exp()).sum(), logits, retain_graph=True)
    (true,) = torch.autograd.grad((logprobs.exp() * (logprobs - reference)).sum(), logits)
    assert bool((estimated - true).norm() <= 1e-9 * true.norm()) == (corrected and kind != "k2")


def test_the_ratio_of_a_sequence_is_the_geometric_mean_of_its_tokens() -> None:
    rows = random_rows(3)
    tokens = token_losses(**rows, objective=objective(importance="sequence"))
    for i in range(ROWS):
        real = rows["mask"][i]
        mean = (rows["logprobs"] - rows["behaviour"])[i][real].mean().exp()
        torch.testing.assert_close(tokens.ratio[i][real], mean.expand(int(real.sum())))


@pytest.mark.parametrize(("ratio", "weight"), [(0.5, 0.5), (1.0, 1.0), (3.0, 1.2)])
def test_cispo_bounds_the_weight_at_one_plus_the_clip_and_keeps_the_gradient(ratio: float, weight: float) -> None:
    for advantage in (1.0, -1.0):
        assert gradient_at(ratio, advantage, loss="cispo", clip_high=0.2) == pytest.approx(-weight * advantage)


def test_sapo_fades_smoothly_and_faster_for_failures() -> None:
    for ratio in (0.25, 1.0, 4.0):
        for advantage, tau in ((1.0, 1.0), (-1.0, 1.05)):
            gate = 1 / (1 + math.exp(-tau * (ratio - 1)))
            expected = -4 * gate * (1 - gate) * ratio * advantage
            assert gradient_at(ratio, advantage, loss="sapo") == pytest.approx(expected)


def test_the_entropy_bonus_takes_the_entropy_off_the_loss() -> None:
    rows = random_rows(4)
    plain = token_losses(**rows, objective=objective())
    rows["entropies"] = torch.rand(ROWS, WIDTH, dtype=torch.float64)
    bonus = token_losses(**rows, objective=objective(entropy=0.3))
    torch.testing.assert_close(plain.loss - bonus.loss, 0.3 * rows["entropies"] * rows["mask"])
