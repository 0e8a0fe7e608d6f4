"""Perturbed questions: the question of a problem with other quantities, where no sibling has another answer.

Their answers are unknown, but two workflows that return the same values on all of them compute the same function.
"""

import re
from collections.abc import Sequence
from math import isclose
from random import Random

from tasks.programs.operators.builtin import MAX_TEXT, read_quantities, written_quantities
from tasks.seeds import derive_seed

TEXTS = 3
"""Texts for each question: two siblings already reject 99.6 % of the wrong workflows."""

TRIES = 4
"""Draws for each text: a single small quantity has few alternatives."""

_PERCENT = re.compile(r"([ ]?%|[ -]percent)\Z", re.IGNORECASE)
_PLAIN = re.compile(r"[0-9,]*(?:\.([0-9]+))?")


def perturb_question(question: str, problem_id: str, texts: int = TEXTS) -> tuple[str, ...]:
    """The question with each of its quantities replaced by another one of the same kind, in up to `texts` ways.

    Integers stay integers, percentages percentages, shares below 1, and decimals keep their number of digits. All are
    written in digits, between 0.6 and 1.7 times the original (small integers a little farther off). `numbers` reads
    from each text as many quantities as from the question, each different. Fewer texts where no more differ, none
    without a quantity. A function of the arguments only.
    """
    values, written, between = written_quantities(question)
    found: list[str] = []
    for place in range(texts * TRIES if values else 0):
        rng = Random(derive_seed("search", "perturbed", problem_id, place))
        drawn = [_other(value, as_written, rng) for value, as_written in zip(values, written, strict=True)]
        text = between[0] + "".join(new + rest for new, rest in zip(drawn, between[1:], strict=True))
        if text not in found and _reads(text, between, values):
            found.append(text)
        if len(found) == texts:
            break
    return tuple(found)


def _other(value: int | float, written: str, rng: Random) -> str:
    """Another quantity of the same kind, as it is written."""
    percent = _PERCENT.search(written)
    ending = percent[0] if percent else ""
    scaled = round(value * 100, 9) if percent else value
    decimals = _decimals(scaled, written.removesuffix(ending))
    steps = round(scaled * 10**decimals)
    most = 10**decimals * (100 if percent else 1) if 0 < value < 1 else None
    return _decimal(_near(steps, most, rng), decimals) + ending


def _decimals(value: int | float, written: str) -> int:
    """Digits after the point: as many as are written; for words and fractions 0 for an integer, else 2."""
    plain = _PLAIN.fullmatch(written)
    if plain:
        return len(plain[1] or "")
    return 0 if value == round(value) else 2


def _near(whole: int, below: int | None, rng: Random) -> int:
    """Another integer near `whole` ≥ 0, at least 1 and less than `below`, with as many trailing zeros as leave two
    leading digits."""
    zeros = len(str(whole)) - len(str(whole).rstrip("0")) if whole else 0
    unit = int(10 ** min(zeros, max(0, len(str(whole)) - 2)))
    count = whole // unit
    low, high = max(1, -(-6 * count // 10)), max(17 * count // 10, count + 3)
    if below is not None:
        high = min(high, (below - 1) // unit)
    drawn = rng.randrange(low, max(high, low + 1))  # one less than `high`: the next line skips `count`
    return (drawn + (drawn >= count)) * unit


def _decimal(steps: int, decimals: int) -> str:
    whole, part = divmod(steps, 10**decimals)
    return f"{whole}.{part:0{decimals}d}" if decimals else str(whole)


def _reads(text: str, between: Sequence[str], values: Sequence[int | float]) -> bool:
    """True if the quantities of `text` are at the same places as in the question, and all differ."""
    read, around = read_quantities(text)
    return len(text) <= MAX_TEXT and around == list(between) and not any(map(isclose, read, values))
