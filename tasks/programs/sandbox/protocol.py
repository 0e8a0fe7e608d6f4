"""Wire format between host, zygote and children: one byte for the kind, four bytes for the length, the payload."""

import os
import struct

_HEAD = struct.Struct(">cI")
HEAD_SIZE = _HEAD.size
_LENGTHS = struct.Struct(">II")

SETTINGS = b"S"  # host → zygote, once: JSON {"seconds", "memory_mb", "layers"}
HELLO = b"H"  # zygote → host, once: JSON {"layers", "reasons"}
PROGRAM = b"P"  # host → zygote: pack_program(code, question, replies), for a child of its own; host → tests → program
# under test: JSON [prompt, code, name of the function, setup]
BATCH = b"B"  # host → zygote: JSON [[code, [question, …]], …], plain programs for one child
TESTS = b"U"  # host → zygote: SHARED or OWN; host → tests: JSON [prompt, setup, name of the function, texts]
CALL = b"C"  # tests → program under test, after a PROGRAM: JSON [name, arguments, keywords]
REPLY = b"R"  # program under test → tests: JSON ["ok", value] or ["error", exception], untrusted
ENDINGS = b"E"  # reply: the bytes that the child wrote, untrusted
AGAIN = b"A"  # reply: the program must be tested again, in a process of its own
MEMORY = b"M"  # reply: the program under test has used more memory than it may
TIMEOUT = b"T"  # reply: it exceeded its time and was killed
DIED = b"D"  # never sent: the host's own mark for a zygote that died
KILLED = b"K"  # reply: it died without a result; the payload is the reason in words

SHARED, OWN = b"s", b"o"
"""Processes of a program under test: one of many programs that leave no state, or its own."""

READ = b"#"
"""The first byte of verdicts: the tests have been read."""

PASSED, FAILED, ABORTED, END, DEAD = b"P", b"F", b"X", b";", b"D"
"""Verdicts: of a test; of a text of tests that raised elsewhere, or ran to its end; of a program that has ended."""

PIPE = 2048
"""Most bytes of verdicts that are written before the zygote is asked to read them: a pipe holds at least 4096."""

MORE, FINISHED, USED_UP = b"+", b".", b"!"
"""Tests → zygote: there are verdicts to be read; the tests have ended; they have, and may have left some state."""


def pack(kind: bytes, payload: bytes) -> bytes:
    """One message."""
    return _HEAD.pack(kind, len(payload)) + payload


def unpack_head(head: bytes) -> tuple[bytes, int]:
    """(kind, length of the payload) of a message's first HEAD_SIZE bytes."""
    kind, length = _HEAD.unpack(head)
    return kind, length


def pack_program(code: str, question: str, replies: bytes = b"") -> bytes:
    """Payload of a PROGRAM. It is not JSON because parsing would take a child a twentieth of its time.

    `replies`: a model's replies to the program's first prompts, JSON [[checksum of the prompt, text], …]; b"" for none.
    """
    source, text = code.encode(), question.encode("utf-8", "surrogatepass")
    return _LENGTHS.pack(len(source), len(text)) + source + text + replies


def unpack_program(payload: bytes | bytearray) -> tuple[str, str, bytes]:
    """(code, question, replies) of a PROGRAM."""
    source, text = _LENGTHS.unpack_from(payload)
    begin = _LENGTHS.size + source
    end = begin + text
    question = payload[begin:end].decode("utf-8", "surrogatepass")
    return payload[_LENGTHS.size : begin].decode(), question, bytes(payload[end:])


def read_frame(descriptor: int, most: int = 1 << 32) -> tuple[bytes, bytes]:
    """Read one message, blocking. Raises EOFError if the other side has closed or it has over `most` bytes."""
    kind, length = unpack_head(_read_exactly(descriptor, HEAD_SIZE))
    if length > most:
        raise EOFError
    return kind, _read_exactly(descriptor, length)


def read_buffer(descriptor: int) -> tuple[bytes, bytearray]:
    """As `read_frame`, into memory that `wipe` can clear."""
    kind, length = unpack_head(_read_exactly(descriptor, HEAD_SIZE))
    payload = bytearray(length)
    rest = memoryview(payload)
    while rest:
        size = os.readv(descriptor, [rest])
        if not size:
            raise EOFError
        rest = rest[size:]
    return kind, payload


def wipe(buffer: bytearray, size: int | None = None) -> None:
    """Overwrite the first `size` bytes, all by default."""
    memoryview(buffer)[:size] = bytes(len(buffer) if size is None else size)


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
