"""Selection variants of `benchmarks.selection`, and the conditions that each runs in."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.influence_selection.conditions import Condition

PROBLEMS, COMPLETIONS = 64, 24
"""Training problems of a round, and the completions of each."""

TRUSTED = 8
"""Trusted completions of a validation problem."""

STEPS = 8
"""Steps of each pass over a round's completions."""

SAMPLES = ("search.samples", "search.simulations", "update.group_size")
"""Params that are the number of completions of a problem."""

Rule = Literal["none", "oracle", "majority", "trusted_alone", "audit", "positive"]


@dataclass(frozen=True)
class Variant:
    """A selection rule and the number of validation problems of a round, whose completions are trusted."""

    rule: Rule
    held_out: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """Training problems of a round and completions of each."""
        if self.rule == "trusted_alone":
            return self.held_out, TRUSTED
        if self.rule == "positive":
            return PROBLEMS, COMPLETIONS - self.held_out * TRUSTED // PROBLEMS
        return PROBLEMS, COMPLETIONS

    @property
    def assignments(self) -> tuple[str, ...]:
        """The params of a round that differ from those of another variant."""
        problems, group = self.size
        batch = problems + self.held_out * (self.rule == "positive")
        sizes = {
            "search.problems": problems,
            **dict.fromkeys(SAMPLES, group),
            "update.prompts_per_step": batch // STEPS,
            "influence.selection": self.rule if self.rule in ("audit", "positive") else "none",
            "influence.n": self.held_out or 1,
            "influence.completions": TRUSTED,
        }
        return tuple(f"{name}={value}" for name, value in sizes.items())


NONE, ORACLE, MAJORITY, AUDIT = "no selection", "oracle", "majority", "audit"
ALONE, ALONE_1024 = "trusted alone, 512", "trusted alone, 1,024"
INFLUENCE = "influence, 1,024 trusted"

VARIANTS: dict[str, Variant] = {
    NONE: Variant("none"),
    ORACLE: Variant("oracle"),
    MAJORITY: Variant("majority"),
    ALONE: Variant("trusted_alone", 64),
    ALONE_1024: Variant("trusted_alone", 128),
    AUDIT: Variant("audit", 128),
    INFLUENCE: Variant("positive", 128),
}

PLAN: dict[Condition, tuple[str, ...]] = {
    "clean": (NONE, AUDIT),
    "flipped": tuple(VARIANTS),
    "biased": (NONE, MAJORITY, ALONE, ALONE_1024, AUDIT),
    "answer_only": (NONE, MAJORITY, ALONE, ALONE_1024, AUDIT),
}
"""Condition → variants; no figure needs oracle and influence, which are there in one."""
