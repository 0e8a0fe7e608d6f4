"""Opening, event and question: the parts that a story of the grammar consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.problems.template import Quantity


@dataclass(frozen=True, eq=False)
class Part:
    """One or two sentences with open quantities, phrased in several ways.

    `{who}` stands for the person that the quantity belongs to and `{next}` for another one. Quantities are `{x}` and
    `{y}`; any other is a distractor. `solution` gives the quantity after the part, from `q`, the one before it, and its
    own: an opening has no `q`, a question leaves it as it is.
    """

    name: str
    takes: str | None  # the kind of quantity that it continues; None: it opens a story
    gives: str  # the kind of quantity after it
    solution: str
    tellings: tuple[str, ...]
    quantities: Mapping[str, Quantity] = field(default_factory=dict)
    items: tuple[str, ...] = ()
    hundredths: bool = False
    passes: bool = False  # from here on the quantity is that of `{next}`

    @property
    def operations(self) -> int:
        return sum(self.solution.count(symbol) for symbol in "+-*/")
