"""Behaviour of two versions of a function on varied inputs. The source of this file is run in the sandbox as a program.

`solve` gets JSON with both versions, tests that call the function, its name, a seed and how many inputs to try.
"""

import copy
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LINES = 50_000
"""Lines that a version may run on an input; more count as endless."""

Call = tuple[Any, ...]
"""The arguments of a call."""


class Endless(BaseException):
    """A version has run too many lines."""


def solve(problem: str) -> str:
    """`equal on N inputs`, or the first input on which the versions differ, with what each gives."""
    given = json.loads(problem)
    name = given["name"]
    solution, mutant = (_function(given[kind], name) for kind in ("solution", "mutant"))
    calls = recorded_calls(solution, given["tests"])
    tried = 0
    for call in (*calls, *varied_calls(calls, random.Random(given["seed"]), given["inputs"])):
        expected = outcome(solution, call)
        if not expected[0]:
            continue  # the solution raises: not an input of the problem
        tried += 1
        found = outcome(mutant, call)
        if not is_equal(expected, found):
            shown = ", ".join(map(_short, call))
            return f"{name}({shown}) is {_short(expected[1])}; the mutant gives {_short(found[1])}"
    return f"equal on {tried} inputs"


def _function(source: str, name: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    function: Callable[..., Any] = namespace[name]
    namespace["check"] = None
    return function


def recorded_calls(function: Callable[..., Any], tests: str) -> list[Call]:
    """The arguments with which tests call the function, each once, where they are plain data."""
    calls: dict[str, Call] = {}

    def record(*arguments: Any) -> Any:
        if all(map(is_plain, arguments)):
            calls.setdefault(repr(arguments), copy.deepcopy(arguments))
        return function(*arguments)

    namespace: dict[str, Any] = dict(function.__globals__)
    exec(tests, namespace)
    namespace["check"](record)
    return list(calls.values())


def varied_calls(calls: Sequence[Call], rng: random.Random, count: int) -> Iterator[Call]:
    """Calls near the recorded ones: of the same types, with numbers, characters and lengths between theirs."""
    seen = [Seen(values) for values in zip(*calls, strict=False)]
    for _ in range(count if calls else 0):
        yield tuple(varied(value, place, rng) for value, place in zip(rng.choice(calls), seen, strict=False))


class Seen:
    """Values of one argument: the range of its numbers, its characters, and the range of its lengths."""

    def __init__(self, values: Sequence[Any]) -> None:
        parts = [part for value in values for part in _parts(value)]
        numbers = [part for part in parts if type(part) in (int, float)]
        lengths = [len(part) for part in parts if isinstance(part, str | list | tuple | dict)]
        self.low, self.high = min(numbers, default=0), max(numbers, default=0)
        self.characters = sorted({character for part in parts if isinstance(part, str) for character in part})
        self.shortest, self.longest = min(lengths, default=0), max(lengths, default=0)


def _parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)


def varied(value: Any, seen: Seen, rng: random.Random) -> Any:
    """A value of the same type within what was seen."""
    if type(value) is int:
        near = value + rng.choice((-2, -1, 0, 0, 1, 2))
        return min(max(near, seen.low), seen.high) if rng.random() < 0.8 else rng.randint(int(seen.low), int(seen.high))
    if type(value) is float:
        return min(max(value + rng.choice((-1.0, -0.5, 0.0, 0.5, 1.0)), seen.low), seen.high)
    if type(value) is str:
        return _varied_text(value, seen, rng)
    if type(value) in (list, tuple):
        items = [varied(each, seen, rng) for each in value]
        if rng.random() < 0.5:
            rng.shuffle(items)
        if items and rng.random() < 0.5 and len(items) < seen.longest:
            items.insert(rng.randrange(len(items) + 1), rng.choice(items))
        elif rng.random() < 0.5 and len(items) > seen.shortest:
            del items[rng.randrange(len(items))]
        return type(value)(items)
    return value


def _varied_text(text: str, seen: Seen, rng: random.Random) -> str:
    letters = list(text)
    for _ in range(rng.randrange(3)):
        change = rng.randrange(4)
        place = rng.randrange(len(letters) + 1)
        if change == 0 and place < len(letters):
            letters[place] = rng.choice(seen.characters)
        elif change == 1 and place < len(letters) and len(letters) > seen.shortest:
            del letters[place]
        elif change == 2 and seen.characters and len(letters) < seen.longest:
            letters.insert(place, rng.choice(seen.characters))
        elif change == 3:
            rng.shuffle(letters)
    return "".join(letters)


def outcome(function: Callable[..., Any], call: Call) -> tuple[bool, Any]:
    """(True, what the function returned), or (False, the name of its exception)."""
    left = LINES

    def count(frame: Any, event: str, argument: Any) -> Any:  # noqa: ARG001
        nonlocal left
        left -= 1
        if left < 0:
            raise Endless
        return count

    sys.settrace(count)
    try:
        return True, function(*copy.deepcopy(call))
    except Endless:
        return False, "no end"
    except Exception as error:  # noqa: BLE001 (a mutant may raise anything)
        return False, type(error).__name__
    finally:
        sys.settrace(None)


def is_equal(one: tuple[bool, Any], other: tuple[bool, Any]) -> bool:
    """Whether both returned the same, by `==`, by which the tests compare, or by their text: NaN."""
    return one == other or repr(one) == repr(other)


def is_plain(value: Any) -> bool:
    """Whether a value consists of numbers, texts, None, lists, tuples and dicts."""
    return all(type(part) in (int, float, bool, str, type(None), list, tuple, dict) for part in _parts(value))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
