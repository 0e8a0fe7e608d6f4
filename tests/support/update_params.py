"""The section `update` of params.yaml for tests: GRPO as published, without any term that a test does not ask for."""

from typing import Any

from tasks.params.sections import Update

PLAIN: dict[str, Any] = {
    "group_size": 3,
    "prompts_per_step": 2,
    "epochs": 2,
    "learning_rate": 0.01,
    "schedule": "linear",
    "warmup_steps": 4,
    "bf16": False,
    "micro_batch_tokens": 2048,
    "checkpointing": False,
    "deterministic": True,
    "processes": 1,
    "sharded": False,
    "loss": "dapo",
    "importance": "token",
    "advantages": "group",
    "sampler_correction": "none",
    "truncated": "learn",
    "clip_low": 0.2,
    "clip_high": 0.2,
    "negative_weight": 1.0,
    "beta": 0.0,
    "kl_target": None,
    "kl": "k3",
    "kl_correction": False,
    "entropy": 0.0,
    "max_grad_norm": 1.0,
}

MANUAL = {"loss": "reinforce", "importance": "token", "kl": "k1", "kl_correction": False, "entropy": 0.0}
"""-A · mean log p + beta · mean(log p - log ref), in which completions of a step are averaged."""


def grpo_params(**changes: Any) -> Update:
    """With `changes`."""
    return Update.model_validate(PLAIN | changes)
