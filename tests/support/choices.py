"""Choices that the working notes name: the assignments that make each of them in a round of the tiny project."""

from collections.abc import Sequence
from pathlib import Path

from flows.cli.presets import preset
from tasks.artifacts import read_text
from tasks.params.file import overridden
from tasks.params.params import Params
from tests.support.real_project import HELD_OUT, TRAIN
from tests.support.stage_params import REPOSITORY

TINY = (
    f"shard_size={len(TRAIN)}",  # completions that are decoded in one batch depend on each other
    "sandbox.allow_weak=true",
    *("search.samples=4", "search.simulations=4", "search.temperature=1.0"),
    *("influence.selection=positive", "influence.fdr_control=false", "influence.completions=4"),
    *(f"influence.n={len(HELD_OUT)}", "policy.max_new_tokens=48"),
    *("update.group_size=8", "update.epochs=2", "update.prompts_per_step=3", "update.learning_rate=0.005"),
    "update.beta=0.05",
)
"""Sizes for the problems and the policy of `real_project`; a search has independent samples alone."""

TREE = "search.simulations=8"

PPO = ("algorithm=ppo", "influence.similarity=dot")

CHOICES: dict[str, tuple[str, ...]] = {
    "same batch": ("influence.validation=same_batch",),
    "same batch with own votes": ("influence.validation=same_batch", "influence.own_vote=true",
                                  "influence.similarity=dot"),
    "top half": ("influence.selection=top",),
    "bottom half": ("influence.selection=bottom",),
    "random half": ("influence.selection=random",),
    "all samples": ("influence.selection=none",),
    "highest rewards": ("influence.sampling=highest", "influence.k=4"),
    "lowest rewards": ("influence.sampling=lowest", "influence.k=4"),
    "reward loss": ("influence.loss=seqloss-reward", "influence.similarity=dot"),
    "contrastive loss": ("influence.loss=contrastive", "influence.similarity=dot"),
    "constant prompts": ("influence.prompts=constant",),
    "control": ("influence.fdr_control=true",),
    "advantages of the batch": ("update.advantages=global", "update.negative_weight=1.0"),
    "adaptive beta": ("update.kl_target=0.5",),
    "preset published": tuple(preset("published")),
    "preset manual": tuple(preset("manual")),
    "preset improved": tuple(preset("improved")),
    "UCT": (TREE, "search.rule=uct"),
    "random search": (TREE, "search.rule=random"),
    "a user's rule": (TREE, "search.rule=tasks.search.rules:Uniform"),
    "exploration": (TREE, "search.exploration=0"),
    "easiest first": ("search.order=easiest_first", "search.problems=4", TREE),
    "PPO, same batch": (*PPO, "influence.validation=same_batch"),
    "PPO, top half": (*PPO, "influence.selection=top"),
}  # fmt: skip


def tiny_params(assignments: Sequence[str]) -> Params:
    """The shipped params with TINY and these."""
    return overridden(Path("params.yaml"), read_text(REPOSITORY / "params.yaml"), [*TINY, *assignments])[1]
