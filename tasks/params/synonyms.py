"""Words of other projects for params and fields of Graft: an unknown param is answered by ours.

They are TRL's, peft's and those of scripts for TracIn, GRPO and workflows; docs/architecture.md has the table.
"""

SYNONYMS = {
    "model": ("policy.base",),
    "lora_r": ("policy.lora.rank",),
    "lora_alpha": ("policy.lora.alpha",),
    "train_samples": ("problems.train",),
    "test_samples": ("problems.test",),
    "num_epochs": ("rounds", "update.epochs"),
    "epoch": ("rounds", "update.epochs"),
    "num_train_epochs": ("rounds", "update.epochs"),
    "num_iterations": ("update.epochs",),
    "num_generations": ("update.group_size",),
    "max_completion_length": ("policy.max_new_tokens",),
    "temperature": ("search.temperature",),
    "eval_temperature": ("evaluation.temperature",),
    "batch_size": ("update.prompts_per_step",),
    "per_device_train_batch_size": ("update.prompts_per_step",),
    "learning_rate": ("update.learning_rate",),
    "beta": ("update.beta",),
    "kl_coef": ("update.beta",),
    "target_kl": ("update.kl_target",),
    "loss_type": ("update.loss",),
    "clip_eps": ("update.clip_low", "update.clip_high"),
    "epsilon": ("update.clip_low",),
    "epsilon_high": ("update.clip_high",),
    "norm_by_std": ("update.advantages",),
    "scale_rewards": ("update.advantages",),
    "vf_coef": ("ppo.value_weight",),
    "gae_lambda": ("ppo.lam",),
    "ghost_ip": ("influence",),
    "tracin_val_batch_size": ("influence.n",),
    "val_loss_type": ("influence.loss",),
    "workflow_codes": ("members[].code",),
    "group_id": ("problem_id",),
}
"""Their word → our params, or a field of `FIELDS`."""

FIELDS = {"members[].code": "trajectories.jsonl", "problem_id": "rewards.jsonl"}
"""Field → the file whose lines have it."""

MOVED = {"rewards.environment": "environment.weights"}
"""Params that were elsewhere → where they are; those of an environment are not in the table of sections."""


def synonym_of(key: str) -> str | None:
    """Our words for the last or the first part of a dotted key, if another project has it; None for none."""
    ours = SYNONYMS.get(key.rpartition(".")[2]) or SYNONYMS.get(key.partition(".")[0])
    if not ours:
        return None
    return " or ".join(map(repr, ours)) + (f", a field of {FIELDS[ours[0]]}" if ours[0] in FIELDS else "")
