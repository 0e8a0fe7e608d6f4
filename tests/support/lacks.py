"""A machine that lacks something, for real: a forked process without a system call, a mount or a network."""

import ctypes
import os
import pickle
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pytest

from tasks.programs.sandbox.lockdown import forbid_new_privileges
from tasks.programs.sandbox.seccomp import Filter, _Instruction, load_step

Value = TypeVar("Value")

CALLS = {"landlock": (444, 444), "flock": (73, 32), "prctl": (157, 167)}
"""System call → its number on x86-64 and aarch64 (of landlock the first one)."""

_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _DENY = 0x7FFF0000, 0x00050001
_NUMBER, _FIRST = 0, 16  # in struct seccomp_data
_PR_SET_SECCOMP = 22
_NEW_MOUNTS, _NEW_NETWORK = 0x20000, 0x40000000  # of linux/sched.h


def lacking(lack: Callable[[], None], check: Callable[[], Value]) -> Value:
    """What `check` returns in a fork that has called `lack`. Skips the test where that is not permitted."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(_outcome(lack, check), pipe)
            pipe.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        skip, value = pickle.load(pipe)
    os.waitpid(child, 0)
    if skip:
        pytest.skip(skip)
    if isinstance(value, BaseException):
        raise value
    return cast("Value", value)


def _outcome(lack: Callable[[], None], check: Callable[[], object]) -> tuple[str, object]:
    """Why it cannot be done here, if so; what `check` returns or raises."""
    try:
        lack()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"not permitted here: {error}", None
    try:
        return "", check()
    except BaseException as error:  # noqa: BLE001 (raised in the parent)
        return "", error


def without_calls(*names: str) -> Callable[[], None]:
    """These calls fail with EPERM; "seccomp": setting a filter."""
    return partial(_deny, names)


def with_mount(folder: Path, options: str) -> Callable[[], None]:
    """A tmpfs with these options lies over a folder."""
    return partial(_mount, folder, options)


def without_network() -> None:
    """The loopback interface is down, and there is no other."""
    _unshare(_NEW_NETWORK)


def _mount(folder: Path, options: str) -> None:
    _unshare(_NEW_MOUNTS)
    for arguments in (("--make-rprivate", "/"), ("-t", "tmpfs", "-o", options, "tmpfs", str(folder))):
        subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _unshare(kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(kind):
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")


def _deny(names: tuple[str, ...]) -> None:
    deny, number = (_RETURN, 0, 0, _DENY), (_LOAD, 0, 0, _NUMBER)
    code = [number]
    for name in names:
        call = CALLS["prctl" if name == "seccomp" else name][os.uname().machine == "aarch64"]
        if name == "seccomp":
            option = [(_LOAD, 0, 0, _FIRST), (_JUMP_EQUAL, 0, 1, _PR_SET_SECCOMP), deny, number]
            code += [(_JUMP_EQUAL, 0, len(option), call), *option]
        else:
            code += [(_JUMP_EQUAL, 0, 1, call), deny]
    code.append((_RETURN, 0, 0, _ALLOW))
    array = (_Instruction * len(code))(*(_Instruction(*instruction) for instruction in code))
    forbid_new_privileges()
    if load_step(Filter(len(code), ctypes.cast(array, ctypes.POINTER(_Instruction))))():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
