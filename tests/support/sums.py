"""Problem files of sums of small numbers, which a policy of a million parameters can answer."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

LARGEST = 30
NAMES = ("Ada", "Ben", "Carla", "Dario", "Emma", "Felix")
THINGS = ("pens", "apples", "cards")

Story = tuple[str, int]
"""(question, answer)."""


def write_sums(path: Path, count: int, siblings: int, seed: int) -> None:
    """`count` problems with `siblings` each; no question twice."""
    dice = Random(seed)
    used: set[str] = set()
    lines = []
    for number in range(count):
        kind = number % len(_KINDS)
        first, *others = (_fresh(kind, dice, used) for _ in range(1 + siblings))
        asked = {"problem_id": f"sum-{seed}-{number}", "question": first[0], "answer": first[1]}
        lines.append(json.dumps(asked | {"siblings": [{"question": q, "answer": a} for q, a in others]}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _fresh(kind: int, dice: Random, used: set[str]) -> Story:
    while True:
        story = _KINDS[kind](dice.choice(NAMES), dice.choice(THINGS), dice.sample(range(2, LARGEST + 1), 3))
        if story[0] not in used:
            used.add(story[0])
            return story


def _bought(name: str, thing: str, drawn: Sequence[int]) -> Story:
    a, b, _ = drawn
    return f"{name} has {a} {thing} and buys {b} more. How many {thing} are there now?", a + b


def _given(name: str, thing: str, drawn: Sequence[int]) -> Story:
    b, a = sorted(drawn[:2])
    return f"{name} has {a} {thing} and gives {b} away. How many {thing} are left?", a - b


def _both(name: str, thing: str, drawn: Sequence[int]) -> Story:
    c, a, b = sorted(drawn)
    return f"{name} has {a} {thing}, buys {b} and gives {c} away. How many {thing} are left?", a + b - c


_KINDS = (_bought, _given, _both)
