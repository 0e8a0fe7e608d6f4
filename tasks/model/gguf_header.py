"""The sizes that the header of a GGUF file announces, before a library makes lists of them.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Standard library only.
"""

import struct
from pathlib import Path
from typing import BinaryIO

from tasks.errors import GraftError

MAX_TOKENS, MAX_LAYERS = 1 << 20, 1000
"""No published model has more, and lists of this length are read in seconds."""

TOKENS, LAYERS = "tokenizer.ggml.tokens", ".block_count"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9


def check_header(file: Path) -> None:
    """Raises GraftError if the file announces more tokens or layers than any model has.

    struct.error, KeyError, ValueError or RecursionError if its header is damaged.
    """
    with file.open("rb") as stream:
        _check(stream)


def _check(stream: BinaryIO) -> None:
    magic, version, _, fields = struct.unpack("<4sIQQ", stream.read(24))
    if magic != b"GGUF" or version < 2:
        raise KeyError(magic)
    for _ in range(fields):
        name = stream.read(_number(stream, "Q", most=1 << 16)).decode()
        kind = _number(stream, "I")
        if name == TOKENS:
            _refuse_more(MAX_TOKENS, _number(stream, "IQ", place=1), "tokens")
            return
        value = _value(stream, kind)
        if name.endswith(LAYERS) and value is not None:
            _refuse_more(MAX_LAYERS, value, "layers")


def _refuse_more(most: int, found: int, what: str) -> None:
    if found > most:
        raise GraftError(f"policy.base: its header announces {found:,} {what}, more than any model has; name another")


def _value(stream: BinaryIO, kind: int) -> int | None:
    """The next value if it is a whole number; any other is passed over."""
    if kind == _TEXT:
        stream.seek(_number(stream, "Q", most=1 << 32), 1)
        return None
    if kind == _ARRAY:
        inner, count = struct.unpack("<IQ", stream.read(12))
        if inner in _NUMBERS:
            stream.seek(min(count, 1 << 40) * struct.calcsize(_NUMBERS[inner]), 1)
            return None
        _refuse_more(MAX_TOKENS, count, "values of a list")
        for _ in range(count):
            _value(stream, inner)
        return None
    value = _number(stream, _NUMBERS[kind])
    return value if isinstance(value, int) else None


def _number(stream: BinaryIO, form: str, place: int = 0, most: int | None = None) -> int:
    number: int = struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))[place]
    if most is not None and number > most:
        raise KeyError(number)
    return number
