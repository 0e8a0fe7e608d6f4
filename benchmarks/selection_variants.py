"""What is learned from: the variants of `benchmarks.selection`."""

from dataclasses import dataclass
from typing import Literal

from tasks.influence.influence import Measure
from tasks.params import Similarity

PROBLEMS, STEPS = 64, 8  # of a round; of each pass over them, where all samples with a signal are learned from


@dataclass(frozen=True)
class Variant:
    """What is learned from. `judges`: validation completions of a round; 0: the batch itself, None: no influence."""

    rule: Literal["all", "positive", "reweight", "negative", "random", "bottom", "truly_helpful", "validation_itself"]
    judges: int | None = None
    exclude_self: bool = True
    similarity: Similarity = "dot"
    adam: bool = False
    control: bool = False
    mixed: bool = False  # the validation completions are learned from, too

    @property
    def measure(self) -> Measure:
        """How influence is measured."""
        steps_of_problems = PROBLEMS // STEPS if self.adam else None
        return Measure(self.exclude_self, similarity=self.similarity, adam=steps_of_problems)


CHOSEN = "held-out 1024, local, control, mixed"
VARIANTS: dict[str, Variant] = {
    "vanilla": Variant("all"),
    "same batch": Variant("positive", 0),
    "same batch, own vote": Variant("positive", 0, exclude_self=False),
    "same batch, cosine": Variant("positive", 0, similarity="cosine"),
    "held-out 128": Variant("positive", 128),
    "held-out 512": Variant("positive", 512),
    "held-out 1024, local, control": Variant("positive", 1024, similarity="local", control=True),
    CHOSEN: Variant("positive", 1024, similarity="local", control=True, mixed=True),
    "nothing dropped, mixed": Variant("all", 1024, mixed=True),
    "oracle drop": Variant("truly_helpful"),
    "on the 1024 themselves": Variant("validation_itself", 1024),
}
CONTROLS: dict[str, Variant] = {
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
    "held-out 1024, reweighted": Variant("reweight", 1024, similarity="local", control=True),
    "held-out 1024, local, mixed": Variant("positive", 1024, similarity="local", mixed=True),
}
ALL = VARIANTS | CONTROLS | REMEDIES
