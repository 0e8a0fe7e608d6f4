"""Rewards, advantages, returns, losses and gradients of PPO, by Graft and by TRL 0.11.4.

TRL 0.11.4 is the last release whose PPOTrainer has them as methods, and older than the TRL of the tests, so it is
installed in a folder of its own and asked in a process of its own (trl_numbers.py).
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tasks.objective.losses import token_losses
from tasks.ppo.gae import estimate_advantages, token_rewards, whiten
from tasks.ppo.losses import first_step_objective, value_losses
from tests.support.ppo_params import ppo_params

SCRIPT = Path(__file__).with_name("trl_numbers.py")
PACKAGES = ("trl==0.11.4", "tyro==1.0.17")
"""Without what they depend on: that is in the environment of the tests."""

ROWS, TOKENS = 4, 6
SETTINGS: dict[str, list[Any]] = {
    "gamma": [1.0, 0.97],
    "lam": [1.0, 0.95, 0.0],
    "beta": [0.0, 0.3],
    "vf_coef": [0.1, 0.7],
    "cliprange": [0.2, 0.05],
}

Case = Mapping[str, Any]
"""`settings` and `inputs` of a batch."""


def random_case(seed: int) -> Case:
    """Settings and a batch of rows of 1 to TOKENS tokens, with ratios from a half to two."""
    import torch

    random, generator = Random(seed), torch.Generator().manual_seed(seed)
    settings = {name: random.choice(values) for name, values in SETTINGS.items()}
    shape = (ROWS, TOKENS)
    lengths = torch.randint(1, TOKENS + 1, (ROWS,), generator=generator)
    lengths[0] = TOKENS

    def normal(*size: int) -> Any:
        return torch.randn(*size, generator=generator)

    behaviour, values = -2 * torch.rand(shape, generator=generator), normal(*shape)
    given = {
        "mask": (torch.arange(TOKENS) < lengths[:, None]).double(),
        "behaviour": behaviour,
        "reference": -2 * torch.rand(shape, generator=generator),
        "logprobs": behaviour + 0.3 * normal(*shape),
        "values": values,
        "values_now": values + 0.4 * normal(*shape),
        "scores": normal(ROWS),
    }
    return {
        "settings": settings,
        "inputs": {name: own.double().mul(1e4).round().div(1e4).tolist() for name, own in given.items()},
    }


def our_numbers(case: Case) -> dict[str, Any]:
    """Those of trl_numbers.py, by Graft."""
    import torch

    settings = case["settings"]
    given = {name: torch.tensor(value, dtype=torch.float64) for name, value in case["inputs"].items()}
    mask = given["mask"].bool()
    kl = given["behaviour"] - given["reference"]
    rewards = token_rewards(given["scores"], kl, mask, settings["beta"])
    advantages, returns = estimate_advantages(rewards, given["values"], mask, settings["gamma"], settings["lam"])
    advantages = whiten(advantages, mask)
    logprobs, now = given["logprobs"].requires_grad_(), given["values_now"].requires_grad_()
    objective = first_step_objective(ppo_params(clip=settings["cliprange"]))
    tokens = token_losses(logprobs, given["behaviour"], None, None, advantages, mask, objective)
    critic = value_losses(now, returns, mask)
    policy, value = tokens.loss.sum() / mask.sum(), settings["vf_coef"] * critic.sum() / mask.sum()
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
    }


def max_error(case: Case, theirs: Mapping[str, Any]) -> float:
    """The largest difference of a number of Graft's from TRL's."""
    import torch

    ours = our_numbers(case)
    return max(float((own - torch.tensor(theirs[name])).abs().max()) for name, own in ours.items())


def install_trl(folder: Path) -> str:
    """Install PACKAGES into a folder; an empty text, or why that failed."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    done = subprocess.run(
        [*pip, "--no-deps", "--target", str(folder), *PACKAGES], capture_output=True, text=True, check=False
    )
    return (done.stderr.strip().splitlines() or ["pip failed"])[-1] if done.returncode else ""


def trl_numbers(folder: Path, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Those of each case by the TRL of a folder. Raises CalledProcessError where it fails."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        input=json.dumps([*cases]),
        env=os.environ | {"PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return list(json.loads(done.stdout))
