"""Seatbelt, the sandbox of macOS, through libSystem: a process that may touch nothing beyond what it already holds.

Written from the header and from how others call it. **Nobody has run it here**: no machine with macOS was at hand. The
zygote tries it out before it relies on it (lockdown.py), so that what does not hold is reported as missing.
Source: `sandbox_init(3)`; deprecated by Apple since 10.8 and in use all the same, by browsers for instance.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import partial

PROFILE = b"(version 1)(deny default)"
"""No file, no network, no other process, no new process, no service of the system."""

_TEXT = 0  # flag: the profile is given as text, not by the name of a built-in one


def confinement() -> Callable[[], object]:
    """A call that holds this process and all that come from it to PROFILE, for good.

    It returns -1 where it fails. It must come before the limit on open files: the profile is compiled in the child.
    Raises OSError where there is no Seatbelt.
    """
    if sys.platform != "darwin":
        raise OSError("Seatbelt exists on macOS only")
    init = getattr(ctypes.CDLL(None, use_errno=True), "sandbox_init", None)
    if init is None:
        raise OSError("this macOS has no sandbox_init any more")
    complaint = ctypes.c_char_p()  # what is wrong with the profile; never read, never freed: a child is short-lived
    return partial(init, ctypes.c_char_p(PROFILE), ctypes.c_uint64(_TEXT), ctypes.byref(complaint))
