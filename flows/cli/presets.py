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
}
"""For a base from Hugging Face. `small` shows in minutes that all is in place, `improved` is a first one to learn."""


def preset(name: str) -> tuple[str, ...]:
    """The assignments of a preset. Raises GraftError where there is none of the name."""
    if name not in PRESETS:
        raise GraftError(f"--preset {name}: there is none; name one of: {', '.join(PRESETS)}")
    return PRESETS[name]
