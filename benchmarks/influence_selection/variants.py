"""Selection variants of `benchmarks.selection`, and the conditions that each runs in."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.influence_selection.world import ERRING, Condition
from tasks.params.fields import Similarity
from tasks.select.tracin import Measure

PROBLEMS, COMPLETIONS = (
    64,
    24,
)  # of a round: its training problems, and for each of them all completions, trusted or not
STEPS = 8  # of each pass over them

Rule = Literal[
    "all",
    "positive",
    "negative",
    "random",
    "bottom",
    "truly_helpful",
    "trusted_alone",
    "untrained",
    "gradalign",
    "noise_corrected",
    "majority",
    "olr",
]


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

    def training(self, problems: int) -> tuple[int, int]:
        """Training problems of a round and completions of each, where a round has `problems` · COMPLETIONS in all.

        Completions that are not trusted are training's, a number that the problems divide; a variant that learns from
        the trusted alone has no others.
        """
        if self.rule in ("trusted_alone", "untrained"):
            return 0, 0
        left = problems * COMPLETIONS - (self.trusted or 0)
        return problems * self.times, left // (problems * self.times)

    @property
    def measure(self) -> Measure:
        """The influence measure."""
        return Measure(similarity=self.similarity)


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
        MIXED: Variant("all", trusted, mixed=True),
        ALONE: Variant("trusted_alone", trusted),
        GRADALIGN: Variant("gradalign", trusted),
        CORRECTED: Variant("noise_corrected", trusted, mixed=True),
    }
    return {sized(name, trusted): variant for name, variant in own.items()}


CHOSEN = sized(INFLUENCE, 1024)
METHODS: dict[str, Variant] = {
    "first policy": Variant("untrained"),
    NONE: Variant("all"),
    ORACLE: Variant("truly_helpful"),
    "majority": Variant("majority"),
    REPEATED: Variant("all", repeated=True),
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
    "no selection, three times the problems": Variant("all", times=3),
}
ALL = METHODS | VARIATIONS | CLAIMS | MORE

DECISIVE = (
    "first policy",
    NONE,
    ORACLE,
    *(sized(name, trusted) for trusted in TRUSTED[:3] for name in (ALONE, MIXED, INFLUENCE, GRADALIGN)),
)
"""Whether selection earns its place where few are trusted."""

FIGURES: dict[tuple[Condition, bool], tuple[str, ...]] = {
    ("clean", False): (NONE, CHOSEN),
    ("flipped", False): (NONE, ORACLE, CHOSEN),
    ("flipped", True): (NONE, CHOSEN),
    ("answer_only", False): (NONE, ORACLE, CHOSEN),
    ("biased", False): (NONE, ORACLE, CHOSEN),
}
"""(condition, whether fewer steps are taken where less is kept) → variants behind the figures of 1,024 trusted."""

PLAN: dict[tuple[Condition, bool], tuple[str, ...]] = {
    **{where: names for where, names in FIGURES.items() if where[0] == "clean" or where[1]},
    **{(condition, False): tuple(METHODS) for condition in ERRING},
    ("flipped", False): (*METHODS, *VARIATIONS, *CLAIMS),
    ("biased", False): (*METHODS, UNCONTROLLED),
}
"""(condition, whether fewer steps are taken where less is kept) → variants."""
