"""Rewards, advantages, returns, losses, their gradients and the adaptive KL weight are those of TRL 0.11.4.

It is the last release whose PPOTrainer has them as methods, and older than the TRL of the other tests. What it gave is
in `trl_0_11_4.json`; the slow test installs it in a folder of its own and asks it again, for more cases:

    GRAFT_RECORD=1 pytest tests/unit/ppo/test_trl_ppo_oracle.py     writes the file again from such an installation
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.objective.kl_weight import after_step
from tasks.objective.losses import token_losses
from tasks.ppo.gae import estimate_advantages, whiten
from tasks.ppo.losses import first_step_objective, value_losses
from tasks.ppo.rewards import token_kl, token_rewards
from tasks.ppo.vocabulary_kl import vocabulary_kl
from tasks.records import KlWeight
from tests.support.grpo_params import grpo_params
from tests.support.pairwise import pairwise_cases
from tests.support.ppo_params import ppo_params

RECORD = Path(__file__).parent / "trl_0_11_4.json"
SCRIPT = Path(__file__).parents[2] / "support" / "trl_ppo.py"
PACKAGES = ["trl==0.11.4", "tyro==1.0.17"]
"""Without what they depend on: that is in the environment of the tests."""

ROWS, TOKENS, VOCABULARY = 4, 6, 3
ABOUT = 1e-6
SETTINGS: dict[str, list[Any]] = {
    "kl_penalty": ["kl", "abs", "mse", "full"],
    "gamma": [1.0, 0.97],
    "lam": [1.0, 0.95, 0.0],
    "beta": [0.0, 0.3],
    "whiten_rewards": [False, True],
    "vf_coef": [0.1, 0.7],
    "cliprange": [0.2, 0.05],
    "cliprange_value": [0.2, 0.5],
}
BETAS = [[0.04, 6.0, 10_000, [[1.0, 256], [9.0, 256], [6.3, 256], [40.0, 64]]], [0.2, 0.1, 400, [[0.0, 40], [0.1, 40]]]]


def random_inputs(seed: int) -> dict[str, Any]:
    """Rows of 1 to TOKENS tokens, with ratios from a half to two."""
    torch.manual_seed(seed)
    shape = (ROWS, TOKENS)
    lengths = torch.randint(1, TOKENS + 1, (ROWS,))
    lengths[0] = TOKENS
    behaviour = -2 * torch.rand(shape)
    values = torch.randn(shape)
    given = {
        "mask": (torch.arange(TOKENS) < lengths[:, None]).double(),
        "behaviour": behaviour,
        "reference": -2 * torch.rand(shape),
        "logprobs": behaviour + 0.3 * torch.randn(shape),
        "values": values,
        "values_now": values + 0.4 * torch.randn(shape),
        "scores": torch.randn(ROWS),
        "logits": torch.randn(*shape, VOCABULARY),
        "reference_logits": torch.randn(*shape, VOCABULARY),
    }
    return {name: own.double().mul(1e4).round().div(1e4).tolist() for name, own in given.items()}


def cases_of(count: int, seed: int) -> list[dict[str, Any]]:
    found = []
    for place, settings in enumerate(pairwise_cases(**SETTINGS)[:count]):
        inputs = random_inputs(seed + place)
        if settings["whiten_rewards"]:  # TRL whitens the padding, too, which then reaches the tokens before it
            inputs["mask"] = [[1.0] * TOKENS] * ROWS
        if settings["kl_penalty"] != "full":
            del inputs["logits"], inputs["reference_logits"]
        found.append({"settings": settings, "inputs": inputs})
    return found


def ours(settings: dict[str, Any], inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The same numbers as tests/support/trl_ppo.py."""
    given = {name: torch.tensor(value, dtype=torch.float64) for name, value in inputs.items()}
    mask, kind, beta = given["mask"].bool(), settings["kl_penalty"], settings["beta"]
    if kind == "full":
        kl = vocabulary_kl(given["logits"], given["reference_logits"])
    else:
        kl = token_kl(given["behaviour"], given["reference"], kind)
    rewards = token_rewards(given["scores"], kl, mask, beta)
    shown = whiten(rewards, mask, centre=False) if settings["whiten_rewards"] else rewards
    advantages, returns = estimate_advantages(shown, given["values"], mask, settings["gamma"], settings["lam"])
    advantages = whiten(advantages, mask)
    logprobs, now = given["logprobs"].requires_grad_(), given["values_now"].requires_grad_()
    objective = first_step_objective(ppo_params(clip=settings["cliprange"]))
    tokens = token_losses(logprobs, given["behaviour"], None, None, advantages, mask, objective)
    critic = value_losses(now, given["values"] * mask, returns, mask, settings["cliprange_value"])
    policy, value = tokens.loss.sum() / mask.sum(), settings["vf_coef"] * critic.loss.sum() / mask.sum()
    gradients = torch.autograd.grad(policy + value, (logprobs, now))
    return {
        "rewards": rewards,
        "advantages": advantages,
        "returns": returns,
        "logprobs_gradient": gradients[0],
        "values_gradient": gradients[1],
        "policy_loss": policy.detach(),
        "value_loss": value.detach(),
        "policy_clip": tokens.clipped.sum() / mask.sum(),
        "value_clip": critic.clipped.sum() / mask.sum(),
    }


def assert_same(case: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name, own in ours(case["settings"], case["inputs"]).items():
        expected = torch.tensor(theirs[name], dtype=torch.float64)
        assert float((own - expected).abs().max()) <= ABOUT, (name, case["settings"])


def adapted(beta: float, target: float, horizon: int, steps: list[list[float]]) -> list[float]:
    params = grpo_params(beta=beta, kl_target=target, kl_horizon=horizon)
    weight, found = KlWeight(beta=beta, steps=0), []
    for kl, count in steps:
        weight = after_step(weight, kl, int(count), params)
        found.append(weight.beta)
    return found


RECORDED = json.loads(RECORD.read_text()) if RECORD.exists() else {"given": {"cases": [], "betas": []}, "numbers": {}}


@pytest.mark.parametrize("place", range(len(RECORDED["given"]["cases"])))
def test_the_numbers_are_those_that_trl_gave(place: int) -> None:
    assert_same(RECORDED["given"]["cases"][place], RECORDED["numbers"]["cases"][place])


def test_the_recorded_cases_have_clips_and_rows_of_unlike_lengths() -> None:
    """There is something to compare."""
    numbers, cases = RECORDED["numbers"]["cases"], RECORDED["given"]["cases"]
    assert len(cases) >= 5
    assert {case["settings"]["kl_penalty"] for case in cases} == {*SETTINGS["kl_penalty"]}
    assert all(own["policy_clip"] > 0 for own in numbers)
    assert any(own["value_clip"] > 0 for own in numbers)
    padded = [case for case in cases if not case["settings"]["whiten_rewards"]]
    assert 0 < len(padded) < len(cases)
    assert all(len({sum(row) for row in case["inputs"]["mask"]}) > 1 for case in padded)


@pytest.mark.parametrize("place", range(len(BETAS)))
def test_the_adaptive_weight_is_that_of_trl(place: int) -> None:
    assert adapted(*BETAS[place]) == pytest.approx(RECORDED["numbers"]["betas"][place], rel=1e-12)


@pytest.fixture(scope="module")
def trl(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """trl(cases, betas): what an installation of TRL 0.11.4 gives for them."""
    folder = tmp_path_factory.mktemp("trl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pip += ["--no-deps", "--target", str(folder), *PACKAGES]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"trl 0.11.4 cannot be installed here: {installed.stderr.strip().splitlines()[-1]}")

    def ask(cases: list[dict[str, Any]], betas: list[Any]) -> dict[str, Any]:
        given = json.dumps({"cases": cases, "betas": betas})
        environment = os.environ | {"PYTHONPATH": str(folder)}
        answer = subprocess.run(
            [sys.executable, str(SCRIPT)], input=given, env=environment, capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stderr
        return dict(json.loads(answer.stdout))

    return ask


@pytest.mark.slow
def test_trl_gives_what_is_recorded_and_the_same_for_more_cases(trl: Any) -> None:
    if os.environ.get("GRAFT_RECORD"):
        given = {"cases": cases_of(6, seed=0), "betas": BETAS}
        RECORD.write_text(json.dumps({"given": given, "numbers": trl(**given)}) + "\n")
        return
    recorded = RECORDED["given"]
    more = cases_of(1000, seed=100)
    numbers = trl([*recorded["cases"], *more], recorded["betas"])
    for then, now in zip(RECORDED["numbers"]["betas"], numbers["betas"], strict=True):
        assert now == pytest.approx(then)
    for then, now in zip(RECORDED["numbers"]["cases"], numbers["cases"], strict=False):
        for name, own in then.items():
            torch.testing.assert_close(torch.tensor(now[name]), torch.tensor(own))
    for case, theirs in zip([*recorded["cases"], *more], numbers["cases"], strict=True):
        assert_same(case, theirs)
