"""Choices that the working notes name: the assignments that make each of them in a round of the tiny project."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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

DOT = "influence.similarity=dot"

SAME_BATCH = "influence.validation=same_batch"


class Choice(NamedTuple):
    """Assignments that make a choice, and those that have to stand beside them for it to do something."""

    own: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def assignments(self) -> tuple[str, ...]:
        return (*self.beside, *self.own)


CHOICES: dict[str, Choice] = {
    "same batch": Choice((SAME_BATCH,)),
    "same batch with own votes": Choice(("influence.own_vote=true",), (SAME_BATCH, DOT)),
    "top half": Choice(("influence.selection=top",)),
    "bottom half": Choice(("influence.selection=bottom",)),
    "random half": Choice(("influence.selection=random",)),
    "all samples": Choice(("influence.selection=none",)),
    "highest rewards": Choice(("influence.sampling=highest",), ("influence.k=4",)),
    "lowest rewards": Choice(("influence.sampling=lowest",), ("influence.k=4",)),
    "reward loss": Choice(("influence.loss=seqloss-reward",), (DOT,)),
    "contrastive loss": Choice(("influence.loss=contrastive",), (DOT,)),
    "constant prompts": Choice(("influence.prompts=constant",)),
    "control": Choice(("influence.fdr_control=true",)),
    "advantages of the batch": Choice(("update.advantages=global",), ("update.negative_weight=1.0",)),
    "adaptive beta": Choice(("update.kl_target=0.5",)),
    **{f"preset {name}": Choice(tuple(preset(name))) for name in ("published", "manual", "improved")},
    "UCT": Choice(("search.rule=uct",), (TREE,)),
    "random search": Choice(("search.rule=random",), (TREE,)),
    "a user's rule": Choice(("search.rule=tasks.search.rules:Uniform",), (TREE,)),
    "a user's loss": Choice(("update.loss=tasks.objective.surrogates:gated",), (DOT,)),
    "a user's selection": Choice(("influence.selection=tasks.select.strategies:top",)),
    "exploration": Choice(("search.exploration=0",), (TREE,)),
    "easiest first": Choice(("search.order=easiest_first",), (TREE, "search.problems=4")),
    "PPO, same batch": Choice((SAME_BATCH,), PPO),
    "PPO, top half": Choice(("influence.selection=top",), PPO),
}


def tiny_params(assignments: Sequence[str]) -> Params:
    """The shipped params with TINY and these."""
    return overridden(Path("params.yaml"), read_text(REPOSITORY / "params.yaml"), [*TINY, *assignments])[1]
