"""Wire format between host, zygote and children: one byte for the kind, four bytes for the length, the payload."""

import os
import struct

_HEAD = struct.Struct(">cI")
HEAD_SIZE = _HEAD.size
_PROGRAM = struct.Struct(">II?")

SETTINGS = b"S"  # host → zygote, once: JSON {"seconds", "memory_mb", "layers", "service"}
HELLO = b"H"  # zygote → host, once: JSON {"layers", "reasons"}
PROGRAM = b"P"  # host → zygote: pack_program(…), for a child of its own
BATCH = b"B"  # host → zygote: JSON [[code, [question, …]], …], plain programs for one child
SERVICE = b"U"  # host → zygote: a request to its service, whose answer has a kind of the service's own
ENDINGS = b"E"  # reply: the bytes that the child wrote, untrusted
TIMEOUT = b"T"  # reply: it exceeded its time and was killed
DIED = b"D"  # never sent: the host's own mark for a zygote that died
KILLED = b"K"  # reply: it died without a result; the payload is the reason in words


def pack(kind: bytes, payload: bytes) -> bytes:
    """The bytes of a message: its head and the payload."""
    return _HEAD.pack(kind, len(payload)) + payload


def unpack_head(head: bytes) -> tuple[bytes, int]:
    """(kind, length of the payload) of a message's first HEAD_SIZE bytes."""
    kind, length = _HEAD.unpack(head)
    return kind, length


def pack_program(code: str, question: str, replies: bytes = b"", is_proved: bool = False) -> bytes:
    """Payload of a PROGRAM. It is not JSON because parsing would take a child a twentieth of its time.

    `replies`: a model's replies to the program's first prompts, JSON [[checksum of the prompt, text], …]; b"" for none.
    `is_proved`: that it is deterministic (determinism.py).
    """
    source, text = code.encode(), question.encode("utf-8", "surrogatepass")
    return _PROGRAM.pack(len(source), len(text), is_proved) + source + text + replies


def unpack_program(payload: bytes | memoryview) -> tuple[str, str, bytes, bool]:
    """Code, question, replies and proof from the payload of a PROGRAM."""
    source, text, is_proved = _PROGRAM.unpack_from(payload)
    begin = _PROGRAM.size + source
    end = begin + text
    question = str(payload[begin:end], "utf-8", "surrogatepass")
    return str(payload[_PROGRAM.size : begin], "utf-8"), question, bytes(payload[end:]), is_proved


def read_frame(descriptor: int, most: int = 1 << 32) -> tuple[bytes, bytes]:
    """Read one message, blocking. Raises EOFError if the other side has closed or it has over `most` bytes."""
    kind, length = unpack_head(_read_exactly(descriptor, HEAD_SIZE))
    if length > most:
        raise EOFError
    return kind, _read_exactly(descriptor, length)


class Buffer:
    """Memory for one message at a time that can be cleared, unlike that of a `bytes`, and stays in its place."""

    def __init__(self, size: int) -> None:
        self._memory = bytearray(size)
        self._used = 0

    def read_frame(self, descriptor: int) -> tuple[bytes, memoryview]:
        """As the function of that name."""
        kind, length = unpack_head(_read_exactly(descriptor, HEAD_SIZE))
        if length > len(self._memory):
            self._memory = bytearray(2 * length)
        while self._used < length:
            if not self.read(descriptor, length):
                raise EOFError
        return kind, self.content

    def read(self, descriptor: int, most: int) -> int:
        """Read what there is, up to `most` bytes in all: their number, 0 at the end."""
        size = os.readv(descriptor, [memoryview(self._memory)[self._used : most]])
        self._used += size
        return size

    @property
    def content(self) -> memoryview:
        """The bytes of the message that have been read."""
        return memoryview(self._memory)[: self._used]

    def clear(self) -> None:
        """Overwrite what has been read."""
        self.content[:] = bytes(self._used)
        self._used = 0


def write_frame(descriptor: int, kind: bytes, payload: bytes) -> None:
    """Write one complete message, blocking while the pipe is full."""
    write_all(descriptor, pack(kind, payload))


def write_buffer(descriptor: int, kind: bytes, payload: memoryview) -> None:
    """As `write_frame`, without a copy of the payload."""
    write_all(descriptor, _HEAD.pack(kind, len(payload)))
    write_all(descriptor, payload)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of `data`, blocking while the pipe is full."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_exactly(descriptor: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
