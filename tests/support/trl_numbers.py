"""PPO's numbers by TRL 0.11.4, the last release with PPOTrainer.compute_rewards, compute_advantages and loss.

    PYTHONPATH=FOLDER python tests/support/trl_numbers.py < cases.json > numbers.json

It runs in a process of its own, since FOLDER has another TRL than the tests use. A case has `settings` and `inputs`, as
tests/support/trl_oracle.py makes them; its numbers are in float64.
"""

import json
import sys
import types
import warnings
from typing import Any

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from trl.trainer.ppo_trainer import PPOTrainer  # noqa: E402

FIXED = {"kl_penalty": "kl", "whiten_rewards": False, "cliprange_value": 1e9, "ratio_threshold": 1e9}
"""Options of TRL that Graft has not: its KL is d, and the values have no bound."""


def numbers_of(settings: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Rewards, advantages, returns, losses and their gradients of one case."""
    given = {name: torch.tensor(value, dtype=torch.float64) for name, value in inputs.items()}
    config = types.SimpleNamespace(**settings, **FIXED)
    trainer = types.SimpleNamespace(config=config, kl_ctl=types.SimpleNamespace(value=settings["beta"]))
    trainer._kl_penalty = lambda ours, theirs: PPOTrainer._kl_penalty(trainer, ours, theirs)
    behaviour, reference, mask = given["behaviour"], given["reference"], given["mask"]
    rewards, *_ = PPOTrainer.compute_rewards(trainer, list(given["scores"]), behaviour, reference, mask)
    values, advantages, returns = PPOTrainer.compute_advantages(trainer, given["values"], rewards, mask)
    logprobs, now = given["logprobs"].requires_grad_(), given["values_now"].requires_grad_()
    logits = torch.zeros(*logprobs.shape, 2, dtype=torch.float64)  # for its entropy alone
    policy, value, stats = PPOTrainer.loss(trainer, behaviour, values, logits, now, logprobs, mask, advantages, returns)
    gradients = torch.autograd.grad(policy + value, (logprobs, now))
    found = {"rewards": rewards * mask, "advantages": advantages * mask, "returns": returns * mask}
    found |= dict(zip(("logprobs_gradient", "values_gradient"), gradients, strict=True))
    found |= {"policy_loss": policy, "value_loss": value, "policy_clip": stats["policy/clipfrac"]}
    return {name: own.detach().tolist() for name, own in found.items()}


if __name__ == "__main__":
    json.dump([numbers_of(case["settings"], case["inputs"]) for case in json.load(sys.stdin)], sys.stdout)
