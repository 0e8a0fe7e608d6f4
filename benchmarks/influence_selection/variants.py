"""Selection variants of `benchmarks.selection`, and the conditions that each runs in."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.influence_selection.world import Condition
from tasks.influence.tracin import Measure
from tasks.params.fields import Similarity

PROBLEMS, GROUP, HELD_OUT = 64, 8, 1024  # of a round; training and validation completions are of one number in all
STEPS = 8  # of each pass over them, where all samples with a signal are learned from


@dataclass(frozen=True)
class Variant:
    """A selection rule. `judges`: validation completions of a round; 0: the batch itself, None: no influence."""

    rule: Literal["all", "positive", "reweight", "negative", "random", "bottom", "truly_helpful", "validation_itself"]
    judges: int | None = None
    exclude_self: bool = True
    similarity: Similarity = "dot"
    adam: bool = False
    control: bool = False
    mixed: bool = False  # the validation completions are learned from, too
    times: int = 1  # as many training problems

    def training(self, problems: int) -> tuple[int, int]:
        """Training problems of a round and completions of each, where `problems` have GROUP and HELD_OUT judge.

        Each variant has the same number of completions in all: what it does not hold out it may learn from.
        """
        left = problems * GROUP + HELD_OUT - (self.judges or 0)
        return problems * self.times, left // (problems * self.times)

    @property
    def measure(self) -> Measure:
        """The influence measure."""
        steps_of_problems = PROBLEMS // STEPS if self.adam else None
        return Measure(self.exclude_self, similarity=self.similarity, adam=steps_of_problems)


NO_MIX, NO_DROP = "held-out 1024, local, control", "nothing dropped, mixed"
CHOSEN = "held-out 1024, local, control, mixed"
MORE_PROBLEMS = "vanilla, three times the problems"
VARIANTS: dict[str, Variant] = {
    "vanilla": Variant("all"),
    CHOSEN: Variant("positive", HELD_OUT, similarity="local", control=True, mixed=True),
    "oracle drop": Variant("truly_helpful"),
    "same batch": Variant("positive", 0),
    "same batch, own vote": Variant("positive", 0, exclude_self=False),
    "same batch, cosine": Variant("positive", 0, similarity="cosine"),
    "held-out 128": Variant("positive", 128),
    "held-out 512": Variant("positive", 512),
    NO_MIX: Variant("positive", HELD_OUT, similarity="local", control=True),
    NO_DROP: Variant("all", HELD_OUT, mixed=True),
    "on the 1024 themselves": Variant("validation_itself", HELD_OUT),
    "random, as many": Variant("random", 512, similarity="local"),
    "bottom, as many": Variant("bottom", 512, similarity="local"),
    "wrong sign": Variant("negative", 512, similarity="local"),
}
REMEDIES: dict[str, Variant] = {
    "held-out 512, local": Variant("positive", 512, similarity="local"),
    "held-out 512, adam": Variant("positive", 512, adam=True),
    "held-out 512, cosine": Variant("positive", 512, similarity="cosine"),
    "held-out 512, centred": Variant("positive", 512, similarity="centred"),
    "held-out 128, local, control": Variant("positive", 128, similarity="local", control=True),
    "held-out 512, local, control": Variant("positive", 512, similarity="local", control=True),
    "held-out 512, local, control, mixed": Variant("positive", 512, similarity="local", control=True, mixed=True),
    "held-out 1024, reweighted": Variant("reweight", HELD_OUT, similarity="local", control=True),
    "held-out 1024, local, mixed": Variant("positive", HELD_OUT, similarity="local", mixed=True),
}
ALL = VARIANTS | REMEDIES | {MORE_PROBLEMS: Variant("all", times=3)}

LEAST = ("vanilla", CHOSEN, "oracle drop")
"""Variants behind the printed figures."""

PLAN: dict[tuple[Condition, bool], tuple[str, ...]] = {
    ("clean", False): (*LEAST[:2], MORE_PROBLEMS),
    ("flipped", False): tuple(VARIANTS),
    ("flipped", True): LEAST[:2],
    ("answer_only", False): (*LEAST, NO_MIX, NO_DROP),
    ("biased", False): (*LEAST, NO_MIX, NO_DROP),
}
"""(condition, whether fewer steps are taken where less is kept) → variants.

With clean rewards hardly anything is dropped, and what learns from validation alone learns the same whatever they are.
"""

FULL = tuple(name for name, variant in ALL.items() if variant.times == 1)
"""With all train problems in each round there are no others to learn from."""
