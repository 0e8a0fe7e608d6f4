"""Values that other people's files may have, and copies of a record with one of them somewhere."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

ESCAPES = "[/red]\x1b[2J\x1b]0;x\x07\u202eabc[bold]\x9b31m:smile:"
"""Markup, control sequences of terminals, and an override of the direction of the line."""

CONTROLS = "\x1b\x07\u202e\x9b"

VALUES: tuple[Any, ...] = (
    *(ESCAPES, 1e308, -1e308, 5e-324, 10**400, -1, 0, 1.5, True, None, "", "9" * 5000, [], {}, [ESCAPES] * 3),
    *(float("inf"), float("nan"), [[[[]]]], {ESCAPES: ESCAPES}),
)


def places(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value of a record; of a list those in the first two places."""
    inner = record.items() if isinstance(record, dict) else enumerate(record[:2]) if isinstance(record, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


def hostile_record(record: Any, chance: random.Random) -> str:
    """The JSON of a record with one hostile value, or a hostile name, or cut off, or with a part repeated."""
    changed = copy.deepcopy(record)
    *above, last = chance.choice(list(places(record)))
    holder = changed
    for key in above:
        holder = holder[key]
    kind = chance.randrange(4)
    if kind == 0 and isinstance(holder, dict):
        holder[ESCAPES] = holder.pop(last)
    elif kind == 1 and isinstance(holder, dict):
        holder |= {f"{last}{number}": holder[last] for number in range(2000)}
    else:
        holder[last] = chance.choice(VALUES)
    text = json.dumps(changed)
    return text[: chance.randrange(len(text))] if chance.random() < 0.05 else text
