"""Files broken in the ways in which files are: cut, flipped, filled in, wrong in their signs, wrong in their values."""

import json
import os
import random
from collections.abc import Callable
from typing import Any

Way = Callable[[bytes, random.Random], bytes]

STRANGE: list[Any] = [None, True, -1, 0, 1.5, 2**63, 10**30, "", "x", "../../etc/passwd", "a\x00b", "\n"]
STRANGE += ["\u202e\x1b[31m", "x" * 5000, [], {}, [[]], {"a": 1}, -0.0, 1e308]

RAW = [b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b'"\\ud800"', b"[" * 3000, b'{"a":' * 3000, b"''", b"0x1"]
RAW += [b"!!python/object:os.system", b"&a [*a]", b"2026-13-45", b"-", b"? ", b'"\\u0000"']

SIGNS = [b"\x00", b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc3", b"\n", b'"', b"{", b"]", b"\\", b"\x1b[2J"]
SIGNS += ["\u2028".encode(), "\u202e".encode(), b"\x7f", b",", b":", b"-"]


def case_numbers() -> range:
    """The cases of a test, which are seeds. GRAFT_BROKEN_FILES is their number, or FIRST:END to go on after one."""
    first, _, end = os.environ.get("GRAFT_BROKEN_FILES", "200").rpartition(":")
    return range(int(first or 0), int(end))


def broken(valid: bytes, rng: random.Random) -> bytes:
    """A file, broken in one to three ways."""
    content = valid
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice(WAYS)(content, rng)
    return content


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randint(0, len(content))]


def _flipped(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return b"\x80"
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def _with_more(content: bytes, rng: random.Random) -> bytes:
    place = rng.randint(0, len(content))
    return content[:place] + rng.choice((*SIGNS, *RAW, rng.randbytes(rng.randint(1, 8)))) + content[place:]


def _with_less(content: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(content))
    return content[:start] + content[start + rng.randint(1, 40) :]


def _repeated(content: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(content))
    return content[:start] + content[start : start + rng.randint(1, 200)] * 2 + content[start:]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[place] = rng.choice((b"", lines[other], lines[place] * 2, b" " + lines[place]))
    return rng.choice((b"\n", b"\r\n", b"\n")).join(lines)


def _value(content: bytes, rng: random.Random) -> bytes:
    """Another value, a field less or a field more, somewhere in the JSON of a line or of the whole."""
    lines = [content] if content[:2] == b"{\n" else content.split(b"\n")
    place = rng.randrange(len(lines))
    try:
        whole = {"": json.loads(lines[place])}
        _changed(whole, rng)
        text = json.dumps(whole[""]).encode()
    except (ValueError, KeyError, RecursionError):
        return _raw(content, rng)
    return b"\n".join([*lines[:place], text, *lines[place + 1 :]])


def _changed(node: Any, rng: random.Random) -> None:
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.7:
            node = node[key]
            continue
        deed = rng.random()
        if deed < 0.15:
            del node[key]
        elif deed < 0.25 and isinstance(node, dict):
            node[rng.choice(("unknown", "", "a\nb", str(key) + "s"))] = rng.choice(STRANGE)
        else:
            node[key] = rng.choice(STRANGE)
        return


def _raw(content: bytes, rng: random.Random) -> bytes:
    """What no JSON writer writes, in the place of a word or a number."""
    places = [i for i in range(1, len(content)) if content[i - 1 : i] in (b" ", b":", b"[", b",")]
    if not places:
        return rng.choice(RAW)
    start = rng.choice(places)
    end = next((i for i in range(start, len(content)) if content[i : i + 1] in (b",", b"\n", b"]", b"}")), len(content))
    return content[:start] + rng.choice(RAW) + content[end:]


WAYS: list[Way] = [_cut, _flipped, _with_more, _with_less, _repeated, _lines, _value, _value, _value, _raw]
