"""Reader of a file that joblib wrote: plain values and numpy arrays, read as data.

Unpickling imports and calls whatever a file names. This reader interprets the opcodes itself and calls nothing: an
object becomes a `Pickled` with its class name, arguments and state, an array is made from its bytes. Opcodes other than
those below are refused.
"""

import pickletools
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tasks.errors import GraftError

if TYPE_CHECKING:
    from numpy import ndarray

ARRAY = "joblib.numpy_pickle NumpyArrayWrapper"
"""Class of the objects whose array follows in the file."""

DTYPE = "numpy dtype"
SCALAR = ("numpy._core.multiarray scalar", "numpy.core.multiarray scalar")
PLAIN_KINDS = "biuf"
"""Kinds of numpy's types that are read: truth values, integers and floats."""

_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TEXTS_AND_NUMBERS = (
    *("SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
)
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Pickled:
    """An object as a file describes it: the name of its class, its arguments and its state."""

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name, self.arguments, self.state = name, arguments, {}  # type: tuple[str, tuple[Any, ...], Any]


def read_pickled(path: Path) -> Any:
    """The value in a file. Raises GraftError if there is anything but plain values, objects and arrays of numbers."""
    with path.open("rb") as file:
        try:
            return _Reader(file).read()
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise GraftError(
                f"{path}: no file of plain values and arrays of numbers ({type(error).__name__}: {error}); install "
                "its package again"
            ) from error


class _Reader:
    """Interprets the opcodes of one file with a stack and a memo, as the format has them (PEP 307, PEP 3154)."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._stack, self._memo = file, list[Any](), dict[int, Any]()

    def read(self) -> Any:
        while True:
            # One opcode at a time: the bytes of an array stand between two of them.
            opcode, argument, _ = next(pickletools.genops(self._file))
            if opcode.name == "STOP":
                return self._stack.pop()
            self._step(opcode.name, argument)

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in ("PROTO", "FRAME"):
            return
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TEXTS_AND_NUMBERS:
            stack.append(argument)
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in _TUPLES:
            stack.append(tuple(self._last(_TUPLES[name])))
        elif name == "TUPLE":
            stack.append(tuple(self._since_mark()))
        elif name in ("APPEND", "APPENDS"):
            values = self._last(1) if name == "APPEND" else self._since_mark()
            stack[-1].extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            values = self._last(2) if name == "SETITEM" else self._since_mark()
            stack[-1].update(zip(values[::2], values[1::2], strict=True))
        elif name == "STACK_GLOBAL":
            stack.append(" ".join(self._last(2)))
        elif name in ("NEWOBJ", "REDUCE"):
            stack.append(_object(*self._last(2)))
        elif name == "BUILD":
            self._build()
        else:
            raise ValueError(f"opcode {name}")

    def _build(self) -> None:
        built, state = self._last(2)
        built.state = state
        self._stack.append(self._array(state) if built.name == ARRAY else built)

    def _array(self, state: dict[str, Any]) -> "ndarray[Any, Any]":
        """The array whose bytes begin here, after one byte with the number of bytes of padding."""
        import numpy as np

        dtype = _dtype(state["dtype"])
        shape = tuple(int(size) for size in state["shape"])
        self._file.read(self._file.read(1)[0])
        size = dtype.itemsize * int(np.prod(shape))
        content = self._file.read(size)
        return np.frombuffer(content, dtype).reshape(shape, order=state["order"])

    def _last(self, count: int) -> list[Any]:
        place = len(self._stack) - count
        if place < 0:
            raise IndexError("a value is missing")
        values = self._stack[place:]
        del self._stack[place:]
        return values

    def _since_mark(self) -> list[Any]:
        place = max(i for i, value in enumerate(self._stack) if value is _MARK)
        values = self._stack[place + 1 :]
        del self._stack[place:]
        return values


def _object(name: str, arguments: tuple[Any, ...]) -> Any:
    import numpy as np

    if name in SCALAR:
        dtype, content = arguments
        return np.frombuffer(content, _dtype(dtype))[0].item()
    return Pickled(name, arguments)


def _dtype(described: Pickled) -> Any:
    """The type of an array's numbers in the byte order of the file. Raises ValueError for any other type."""
    import numpy as np

    if described.name != DTYPE:
        raise ValueError(f"{described.name} is no type of numbers")
    dtype = np.dtype(described.arguments[0])
    if dtype.kind not in PLAIN_KINDS:
        raise ValueError(f"an array of {dtype}")
    return dtype.newbyteorder(described.state[1] if described.state else "=")
