"""Landlock by raw system calls: denies all files, TCP ports and abstract sockets.

Source: Linux `Documentation/userspace-api/landlock.rst`; the numbers are the same on x86-64 and aarch64.
"""

import ctypes
import os
from collections.abc import Callable
from functools import partial

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION_FLAG = 1

_LIBC = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    """`struct landlock_ruleset_attr`: the access rights that are denied unless a rule allows them; no rule is added."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def create_ruleset() -> int:
    """A file descriptor of the strictest ruleset that this kernel supports. Raises OSError if it has no landlock."""
    version = _call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    files = 13 + (version >= 2) + (version >= 3) + (version >= 5)  # access rights, one bit each
    attributes = _Attributes((1 << files) - 1, 0b11 if version >= 4 else 0, 0b11 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    return _call(_CREATE_RULESET, ctypes.byref(attributes), size, 0)


def restrict_step(ruleset: int) -> Callable[[], object]:
    """A call that restricts this process and its descendants to `ruleset` for good.

    It returns -1 on failure. Needs no_new_privs.
    """
    return partial(_LIBC.syscall, *map(ctypes.c_long, (_RESTRICT_SELF, ruleset, 0)))


def _call(number: int, *arguments: object) -> int:
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    value: int = _LIBC.syscall(ctypes.c_long(number), *plain)
    if value < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return value
