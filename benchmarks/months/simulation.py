"""Months of thirty nights, simulated: what is served at their end, and how often chance is promoted.

A problem is solved where ability − difficulty + luck > 0. Luck is a policy's own on a problem, and correlated with its
parent's; a night adds a gain to the ability. The gate, the confirmation and what is left behind are the product's own
functions. Beside today's rules are others that promise as much: alpha spending, LORD++ and an e-process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from tasks.promote.gate import confirm_promotion, decide_promotion
from tasks.records.promotion import Promotion

NIGHTS, PROBLEMS, ALPHA = 30, 200, 0.05
DIFFICULTY, LUCK, LIKENESS = 1.2, 0.8, 0.8
"""Standard deviations of difficulty and luck; correlation of a policy's luck with its parent's."""

SURE = 1.2
"""With fewer standard errors than these no interval excludes 0, and the product is not asked."""

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """Gain of a night in units of ability: its mean and standard deviation. 0.03 is +0.008 in accuracy."""

    name: str
    gain: float
    deviation: float


SETTINGS = (
    Setting("no night is better", 0, 0),
    Setting("each by 0.008", 0.03, 0),
    Setting("each by 0.017", 0.06, 0),
    Setting("+0.006, sd 0.02", 0.02, 0.08),
    Setting("-0.006, sd 0.02", -0.02, 0.08),
)


@dataclass(frozen=True)
class Rule:
    """How a month decides. `test` makes a stateful one for R months; without it the product's gate decides."""

    name: str
    latest: bool = True  # nights start from the latest policy, else from the champion
    confirms: bool = False
    fresh: bool = True  # problems that confirm are new each time, else the same of a file
    test: Callable[[int], "Test"] | None = None


def outcomes_of(plus: int, minus: int) -> tuple[list[bool], list[bool]]:
    """Outcomes of two policies on PROBLEMS problems: `plus` are solved by the first alone, `minus` by the second."""
    both = PROBLEMS - plus - minus
    return [True] * plus + [False] * minus + [True] * both, [False] * plus + [True] * (minus + both)


@cache
def gate(plus: int, minus: int) -> Promotion:
    """The product's decision. The order of the problems does not matter, so it is asked once for each pair."""
    return decide_promotion(*outcomes_of(plus, minus), "new", "old", seed=0)


@cache
def confirmation(plus: int, minus: int) -> bool:
    """Whether the product confirms."""
    return confirm_promotion(gate(PROBLEMS // 4, 0), *outcomes_of(plus, minus), seed=0, fresh=True).promoted


def asked(differences: Array, ask: Callable[[int, int], bool]) -> Flags:
    """`ask` of each month's differences [R, PROBLEMS]; False where they are clearly chance."""
    plus, minus = (differences > 0).sum(1), (differences < 0).sum(1)
    unclear = np.abs(plus - minus) > SURE * np.sqrt(plus + minus)
    return np.array([unclear[i] and ask(int(plus[i]), int(minus[i])) for i in range(len(plus))])


class Test:
    """One-sided p-values of R months and nights → which are promoted; each night spends the same share of ALPHA."""

    def __init__(self, months: int) -> None:
        self.promoted = np.zeros((months, 0), bool)

    def night(self, differences: Array) -> Flags:
        error = differences.std(1) / np.sqrt(PROBLEMS)
        passed: Flags = norm.sf(differences.mean(1) / np.maximum(error, 1e-9)) < self.levels()
        self.promoted = np.column_stack([self.promoted, passed])
        return passed

    def levels(self) -> Array:
        return np.full(len(self.promoted), ALPHA / NIGHTS)


class Lord(Test):
    """LORD++ (Ramdas, Yang, Wainwright and Jordan 2017, NeurIPS): a discovery earns level for later nights."""

    SERIES = np.array([np.log(max(j, 2)) / (j * np.exp(np.sqrt(np.log(j)))) for j in range(1, 10_000)])
    GAMMA = SERIES / SERIES.sum()

    def levels(self) -> Array:
        now = self.promoted.shape[1]
        levels = np.full(len(self.promoted), ALPHA / 2 * self.GAMMA[now])
        for month, nights in enumerate(self.promoted):
            for number, night in enumerate(np.flatnonzero(nights)):
                levels[month] += (ALPHA / 2 if number == 0 else ALPHA) * self.GAMMA[now - night - 1]
        return levels


class Betting(Test):
    """Wealth of a bettor on new problems each night, who wins where the policy does; promoted at 1 / ALPHA, and begun
    again. Its chance ever to be there without a gain is ALPHA (Waudby-Smith and Ramdas 2024, JRSS B)."""

    STAKES = (0.05, 0.1, 0.2, 0.3)

    def __init__(self, months: int) -> None:
        self.logs = np.zeros((len(self.STAKES), months))

    def night(self, differences: Array) -> Flags:
        self.logs += np.array([np.log1p(stake * differences).sum(1) for stake in self.STAKES])
        passed: Flags = np.exp(self.logs).mean(0) >= 1 / ALPHA
        self.logs[:, passed] = 0
        return passed


RULES = (
    Rule("from the champion, gate alone", latest=False),
    Rule("from the latest, gate alone"),
    Rule("from the champion, confirmed", latest=False, confirms=True),
    Rule("from the latest, confirmed (Graft)", confirms=True),
    Rule("the same, lines of a file", confirms=True, fresh=False),
    Rule("from the latest, alpha spending", test=Test),
    Rule("from the latest, LORD++", test=Lord),
    Rule("from the latest, e-process", test=Betting),
)


def solved(ability: Array, difficulty: Array, luck: Array) -> Array:
    return (ability[:, None] - difficulty + luck > 0).astype(float)


def heir(luck: Array, likeness: Array | float, rng: np.random.Generator) -> Array:
    """The luck of a policy whose ancestor's is `luck`."""
    return likeness * luck + np.sqrt(1 - likeness**2) * LUCK * rng.normal(size=luck.shape)


def on_new(ability: Array, champion: Array, distance: Array, rng: np.random.Generator) -> Array:
    """Differences on new problems of policies that are so many generations from the champion."""
    new, base = DIFFICULTY * rng.normal(size=(len(ability), PROBLEMS)), LUCK * rng.normal(size=(len(ability), PROBLEMS))
    return solved(ability, new, heir(base, LIKENESS ** distance[:, None], rng)) - solved(champion, new, base)


def simulate(rule: Rule, setting: Setting, months: int, seed: int = 1) -> tuple[float, float, float]:
    """Share of months with a false promotion, promotions a month, mean accuracy served at their end."""
    rng = np.random.default_rng(seed)
    test = rule.test(months) if rule.test else None
    difficulty = DIFFICULTY * rng.normal(size=(2, months, PROBLEMS))  # of the test problems, and of those of a file
    champion, start = np.zeros(months), np.zeros(months)
    served = LUCK * rng.normal(size=difficulty.shape)  # the luck of the champion on both
    latest, distance = served.copy(), np.zeros(months)  # generations between them
    false, promotions = np.zeros(months, bool), 0
    for _ in range(NIGHTS):
        ability = start + setting.gain + setting.deviation * rng.normal(size=months)
        luck, distance = heir(latest, LIKENESS, rng), distance + 1
        there = solved(ability, difficulty[0], luck[0]) - solved(champion, difficulty[0], served[0])
        if test:  # a bettor needs new problems each night
            passed = test.night(on_new(ability, champion, distance, rng) if isinstance(test, Betting) else there)
        else:
            passed = asked(there, lambda *n: gate(*n).promoted)
        worse = asked(there, lambda *n: gate(*n).worse)
        if rule.confirms and passed.any():
            aside = solved(ability, difficulty[1], luck[1]) - solved(champion, difficulty[1], served[1])
            seen = on_new(ability, champion, distance, rng) if rule.fresh else aside
            passed = asked(np.where(passed[:, None], seen, 0), confirmation)
        false |= passed & (ability <= champion + 1e-9)
        promotions += int(passed.sum())
        champion = np.where(passed, ability, champion)
        served = np.where(passed[:, None], luck, served)
        back = ~passed if not rule.latest else worse & ~passed
        start, distance = np.where(back, champion, ability), np.where(back | passed, 0, distance)
        latest = np.where(back[:, None], served, luck)
    spread = np.sqrt(DIFFICULTY**2 + LUCK**2)
    return float(false.mean()), promotions / months, float(norm.cdf(champion / spread).mean())


def report(months: int) -> dict[str, float]:
    """Print the table of settings and rules, and return the figures."""
    found = dict[tuple[str, str], tuple[float, float, float]]()
    print(f"{'':22}{'':36}{'a false promotion':>18}{'promotions':>12}{'served':>8}")
    for setting in SETTINGS:
        for rule in RULES:
            found[setting.name, rule.name] = false, promotions, served = simulate(rule, setting, months)
            print(f"{setting.name:22}{rule.name:36}{false:18.3f}{promotions:12.2f}{served:8.3f}", flush=True)
    null, small = SETTINGS[0].name, SETTINGS[1].name
    graft, before, file = RULES[3].name, RULES[0].name, RULES[4].name
    figures = {"false_promotion_month": found[null, graft][0], "served_small_gains": found[small, graft][2]}
    figures |= {"false_promotion_file": found[null, file][0], "served_small_gains_file": found[small, file][2]}
    return figures | {
        "false_promotion_before": found[null, before][0],
        "served_small_gains_before": found[small, before][2],
    }
