"""The C library's clocks as system calls: the same time, no page with it, no counter of cycles."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.programs.sandbox import clocks

AFTERWARDS = """
import ctypes, json, os, time
from tasks.programs.sandbox import clocks
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
before = clocks.is_closed()
clocks.use_system_calls()
found = [before, clocks.is_closed(), time.time(), time.monotonic(), libc.time(0), len(os.urandom(5))]
print(json.dumps(found), flush=True)
child = os.fork()
if child:
    os.wait()
print(json.dumps([child > 0, clocks.is_closed()]), flush=True)
if child == 0:
    os._exit(0)
"""
READ = "print(ctypes.string_at(libc.getauxval(33) - {}, 8))"
CYCLES = r"""
libc.mmap.restype = ctypes.c_size_t
place = libc.mmap(0, 4096, 7, 0x22, -1, 0)
ctypes.memmove(place, b"\x0f\x31\xc3", 3)
ctypes.CFUNCTYPE(ctypes.c_int)(place)()
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[4]
    return subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)


def test_clocks_go_on_by_system_calls_in_the_process_and_its_children() -> None:
    begun = time.time(), time.monotonic()
    ended = run(AFTERWARDS)
    assert ended.returncode == 0, ended.stderr
    (was_closed, is_closed, now, monotonic, seconds, length), *children = map(json.loads, ended.stdout.splitlines())
    assert (was_closed, is_closed, length, sorted(children)) == (False, True, 5, [[False, True], [True, True]])
    assert begun[0] <= now <= time.time()
    assert begun[1] <= monotonic <= time.monotonic()
    assert begun[0] - 1 <= seconds <= time.time()


@pytest.mark.parametrize("distance", [4096, 8192, 12288, 16384])
def test_the_pages_with_the_time_cannot_be_read(distance: int) -> None:
    assert run(AFTERWARDS + READ.format(distance)).returncode == -signal.SIGSEGV


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="instructions of x86-64")
def test_the_counter_of_cycles_cannot_be_read() -> None:
    before, after = AFTERWARDS.replace("clocks.use_system_calls()", ""), AFTERWARDS
    assert run(before + CYCLES).returncode == 0
    assert run(after + CYCLES).returncode == -signal.SIGSEGV


def test_the_instructions_are_those_of_the_manuals() -> None:
    """Of Intel and AMD: B8 imm32, 0F 05, C3; of Arm: MOVZ (64 bits, no shift), SVC, RET, each a word."""
    assert clocks._x86_64_call(228).hex(" ") == "b8 e4 00 00 00 0f 05 c3"
    words = [f"{int.from_bytes(clocks._aarch64_call(113)[i : i + 4], 'little'):032b}" for i in (0, 4, 8)]
    movz, svc, ret = "110100101" + "00" + f"{113:016b}" + f"{8:05b}", "11010100000" + "0" * 16 + "00001", "1101011001"
    assert words[:2] == [movz, svc]
    assert words[2] == ret + "011111" + "000000" + f"{30:05b}" + "00000"


def test_a_machine_without_a_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "", "", "riscv64")))
    with pytest.raises(OSError, match="no table of clocks for riscv64"):
        clocks.use_system_calls()
