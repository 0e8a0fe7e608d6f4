"""Coverage of 95 % intervals: bootstrap over problems against Wilson's, on sets with a known mean.

    python -m benchmarks.intervals

Problems of random difficulty are sampled, and the interval of their mean is compared with the true mean. The interval
that `tasks/statistics/intervals.py` uses for the size is marked.
The last line of standard output is one JSON object: coverage where the bootstrap is taken, where Wilson's is, and the
lowest of each.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from flows.process.exit_codes import exit_code
from tasks.statistics.intervals import WILSON_BELOW, Estimate, bootstrap_interval, wilson_interval

if TYPE_CHECKING:
    from rich.table import Table

RESAMPLES = 1000


@dataclass(frozen=True)
class Case:
    """Problems whose chances are Beta(a, b), each sampled so many times; once: a chance of a / (a + b) for all."""

    name: str
    a: float
    b: float
    samples: int

    @property
    def truth(self) -> float:
        return self.a / (self.a + self.b)

    def drawn(self, size: int, seed: int) -> list[float]:
        """The share solved of `size` problems."""
        import numpy as np

        rng = np.random.default_rng(seed)
        shares: list[float] = (rng.binomial(self.samples, rng.beta(self.a, self.b, size)) / self.samples).tolist()
        return shares


CASES = (
    Case("any difficulty, 20 samples", 1, 1, 20),
    Case("mostly never or always, 10 samples", 0.3, 0.7, 10),
    Case("hard, 10 samples", 2, 18, 10),
    Case("half solved, greedy", 1, 1, 1),
    Case("nearly all solved, greedy", 9, 1, 1),
    Case("hardly any solved, greedy", 1, 19, 1),
)
SIZES = (10, 20, 50, WILSON_BELOW, 200)


def coverage(case: Case, size: int, sets: int, interval: Callable[[Sequence[float], int], Estimate]) -> float:
    """Share of sets of problems whose interval contains the true mean."""
    found = (interval(case.drawn(size, number), number) for number in range(sets))
    return fmean(one.low <= case.truth <= one.high for one in found)


def measure(sets: int) -> dict[tuple[Case, int], tuple[float, float]]:
    """(case, size) → coverage of the bootstrap and of Wilson's."""
    return {
        (case, size): (
            coverage(case, size, sets, lambda values, seed: bootstrap_interval(values, seed, RESAMPLES)),
            coverage(case, size, sets, lambda values, _: wilson_interval(values)),
        )
        for case in CASES
        for size in SIZES
    }


def table(found: dict[tuple[Case, int], tuple[float, float]]) -> "Table":
    """A row for each case, and for each size bootstrap and Wilson's; what is taken is marked."""
    from rich.table import Table

    made = Table("bootstrap  Wilson's", *(f"{size} problems" for size in SIZES))
    for case in CASES:
        both = [(size, *found[case, size]) for size in SIZES]
        made.add_row(
            case.name, *(f"{b:.3f}  {w:.3f} ←" if size < WILSON_BELOW else f"{b:.3f} ← {w:.3f}" for size, b, w in both)
        )
    return made


def figures(found: dict[tuple[Case, int], tuple[float, float]]) -> dict[str, float]:
    """Of the intervals that are taken."""
    bootstrap = [b for (_, size), (b, _) in found.items() if size >= WILSON_BELOW]
    wilson = [w for (_, size), (_, w) in found.items() if size < WILSON_BELOW]
    numbers = {
        "coverage_bootstrap": fmean(bootstrap),
        "coverage_wilson": fmean(wilson),
        "lowest_bootstrap": min(bootstrap),
        "lowest_wilson": min(wilson),
    }
    return {name: round(number, 4) for name, number in numbers.items()}


def main(arguments: Sequence[str]) -> None:
    """Measure, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.intervals", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sets", type=int, default=1000, help="of problems, for each number")
    found = measure(parser.parse_args(arguments).sets)
    Console(width=None if sys.stdout.isatty() else 120).print(table(found))
    print(json.dumps(figures(found)))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
