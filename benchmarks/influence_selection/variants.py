"""Selection variants of `benchmarks.selection`, and the conditions that each runs in."""

import math
from dataclasses import dataclass
from typing import Literal

from benchmarks.influence_selection.conditions import ERRING, Condition
from tasks.params.fields import Similarity

PROBLEMS, COMPLETIONS = 64, 24
"""Of a round: its training problems, and for each of them all completions, trusted or not."""

SAMPLES = ("search.samples", "search.simulations", "update.group_size")
"""Params that are the number of completions of a problem."""

STEPS = 8
"""Steps of each pass over a round's completions."""

HELD_OUT = 128
"""Most validation problems of a round."""

Rule = Literal[
    "none",
    "positive",
    "negative",
    "random",
    "bottom",
    "oracle",
    "trusted_alone",
    "untrained",
    "gradalign",
    "noise_corrected",
    "majority",
    "olr",
]

MEASURED: tuple[Rule, ...] = ("positive", "negative", "random", "bottom")
"""The rules that need influence."""

UNREWARDED: tuple[Rule, ...] = ("untrained", "trusted_alone", "majority")
"""The rules that read no training reward."""


@dataclass(frozen=True)
class Variant:
    """A selection rule. `trusted`: validation completions of a round; None: none is needed."""

    rule: Rule
    trusted: int | None = None
    similarity: Similarity = "dot"
    control: bool = False
    mixed: bool = False  # the trusted completions are learned from, too
    times: int = 1  # as many training problems
    repeated: bool = False  # each round has the training problems of the first

    @property
    def held_out(self) -> tuple[int, int]:
        """Validation problems of a round and completions of each; one each where few are trusted."""
        problems = min(self.trusted or 0, HELD_OUT)
        return problems, (self.trusted or 0) // max(problems, 1)

    def training(self, problems: int) -> tuple[int, int]:
        """Training problems of a round and completions of each, where a round has `problems` · COMPLETIONS in all.

        Completions that are not trusted are training's, a number that the problems divide; a variant that learns from
        the trusted alone has no others.
        """
        if self.rule == "trusted_alone":
            return self.held_out
        left = problems * COMPLETIONS - (self.trusted or 0)
        return problems * self.times, left // (problems * self.times)

    def assignments(self, problems: int) -> tuple[str, ...]:
        """The params of a round: STEPS steps of each pass, over as many completions for every variant."""
        (count, group), (held_out, completions) = self.training(problems), self.held_out
        steps = math.ceil(STEPS * problems / PROBLEMS)
        sizes = {
            "search.problems": count,
            **dict.fromkeys(SAMPLES, group),
            "update.prompts_per_step": math.ceil((count + held_out * self.mixed) / steps),
            "update.advantages": "none" if self.rule == "noise_corrected" else "group",
            "influence.selection": "positive" if self.rule in MEASURED else "none",
            "influence.similarity": self.similarity,
            "influence.fdr_control": str(self.control).lower(),
            "influence.train_on_validation": str(self.mixed).lower(),
        }
        if self.trusted:
            sizes |= {"influence.n": held_out, "influence.completions": completions}
        return tuple(f"{name}={value}" for name, value in sizes.items())


TRUSTED = (16, 64, 256, 1024)
"""Trusted completions of a round, of PROBLEMS · COMPLETIONS = 1,536."""

NONE, ORACLE = "no selection", "oracle"
REPEATED, OLR = "no selection, repeated problems", "OLR, repeated problems"
INFLUENCE, MIXED, ALONE = "influence", "mixed, nothing dropped", "trusted alone"
GRADALIGN, CORRECTED = "GradAlign", "noise-corrected"


def sized(name: str, trusted: int) -> str:
    """The name of a method with this number of trusted completions."""
    return f"{name}, {trusted} trusted"


def _sizes_of(trusted: int) -> dict[str, Variant]:
    """The methods that need trusted completions."""
    own = {
        INFLUENCE: Variant("positive", trusted, similarity="local", control=True, mixed=True),
        MIXED: Variant("none", trusted, mixed=True),
        ALONE: Variant("trusted_alone", trusted),
        GRADALIGN: Variant("gradalign", trusted),
        CORRECTED: Variant("noise_corrected", trusted, mixed=True),
    }
    return {sized(name, trusted): variant for name, variant in own.items()}


CHOSEN = sized(INFLUENCE, 1024)
METHODS: dict[str, Variant] = {
    "first policy": Variant("untrained"),
    NONE: Variant("none"),
    ORACLE: Variant("oracle"),
    "majority": Variant("majority"),
    REPEATED: Variant("none", repeated=True),
    OLR: Variant("olr", repeated=True),
}
METHODS |= {name: variant for trusted in TRUSTED for name, variant in _sizes_of(trusted).items()}

UNCONTROLLED, GRADALIGN_MIXED = sized("without control", 64), sized("GradAlign, mixed", 64)
VARIATIONS: dict[str, Variant] = {
    UNCONTROLLED: Variant("positive", 64, similarity="local", mixed=True),
    GRADALIGN_MIXED: Variant("gradalign", 64, mixed=True),
}
"""Of methods, with 64 trusted completions."""

CLAIMS: dict[str, Variant] = {
    "held-out 16": Variant("positive", 16),
    "held-out 128": Variant("positive", 128),
    "held-out 512": Variant("positive", 512),
    "held-out 1024, local, control": Variant("positive", 1024, similarity="local", control=True),
    "held-out 512, local": Variant("positive", 512, similarity="local"),
    "random, as many": Variant("random", 512, similarity="local"),
    "bottom, as many": Variant("bottom", 512, similarity="local"),
    "wrong sign": Variant("negative", 512, similarity="local"),
}
"""What is often said of influence, and controls, in condition `flipped`."""

MORE: dict[str, Variant] = {
    "no selection, three times the problems": Variant("none", times=3),
}
ALL = METHODS | VARIATIONS | CLAIMS | MORE

DECISIVE = (
    "first policy",
    NONE,
    ORACLE,
    *(sized(name, trusted) for trusted in TRUSTED[:3] for name in (ALONE, MIXED, INFLUENCE, GRADALIGN)),
)
"""Whether selection earns its place where few are trusted."""

FIGURES: dict[Condition, tuple[str, ...]] = {
    "clean": (NONE, CHOSEN),
    "flipped": (NONE, ORACLE, CHOSEN),
    "answer_only": (NONE, ORACLE, CHOSEN),
    "biased": (NONE, ORACLE, CHOSEN),
}
"""Condition → variants behind the figures of 1,024 trusted."""

PLAN: dict[Condition, tuple[str, ...]] = {
    "clean": FIGURES["clean"],
    **{condition: tuple(METHODS) for condition in ERRING},
    "flipped": (*METHODS, *VARIATIONS, *CLAIMS),
    "biased": (*METHODS, UNCONTROLLED),
}
"""Condition → variants."""
