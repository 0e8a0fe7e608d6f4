"""The BPF allow-list, run by a small interpreter of its own for both machines; the kernel's part is in the attacks.

The numbers are copied from the kernel's headers: `asm/unistd_64.h` for x86-64, `asm-generic/unistd.h` for aarch64
(`__NR3264_mmap` on 64 bits), `linux/audit.h`. No machine with aarch64 was at hand: that the list is enough for Python
there is reasoned from the C library, not run.
"""

import os

import pytest

from tasks.programs.sandbox import seccomp
from tasks.programs.sandbox.seccomp import assemble, build_filter

ALLOW, DENY, KILL = 0x7FFF0000, 0x00050001, 0x80000000
TIMED_OUT = 0x0005006E
X86_64, I386, AARCH64, ARM, RISCV64 = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028, 0xC00000F3
X32 = 0x40000000  # the bit that marks numbers of the x32 interface, under x86-64's own architecture

# fmt: off
ALLOWED = {
    "x86_64": {
        0: "read", 1: "write", 3: "close", 9: "mmap", 10: "mprotect", 11: "munmap", 12: "brk", 14: "rt_sigprocmask",
        15: "rt_sigreturn", 24: "sched_yield", 25: "mremap", 28: "madvise", 35: "nanosleep", 60: "exit", 202: "futex",
        219: "restart_syscall", 230: "clock_nanosleep", 231: "exit_group",
    },
    "aarch64": {
        57: "close", 63: "read", 64: "write", 93: "exit", 94: "exit_group", 98: "futex", 101: "nanosleep",
        115: "clock_nanosleep", 124: "sched_yield", 128: "restart_syscall", 135: "rt_sigprocmask", 139: "rt_sigreturn",
        214: "brk", 215: "munmap", 216: "mremap", 222: "mmap", 226: "mprotect", 233: "madvise",
    },
}
DANGEROUS = {
    "x86_64": {
        "open": 2, "stat": 4, "fstat": 5, "poll": 7, "ioctl": 16, "pipe": 22, "dup": 32, "setitimer": 38, "socket": 41,
        "connect": 42, "sendto": 44, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "unlink": 87,
        "ptrace": 101, "setsid": 112, "prctl": 157, "tkill": 200, "tgkill": 234, "openat": 257, "newfstatat": 262,
        "gettimeofday": 96, "times": 100, "time": 201, "clock_gettime": 228, "clock_getres": 229, "getcpu": 309,
        "ppoll": 271, "prlimit64": 302, "process_vm_readv": 310, "getrandom": 318, "memfd_create": 319, "bpf": 321,
        "execveat": 322, "userfaultfd": 323, "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435, "openat2": 437,
    },
    "aarch64": {
        "dup": 23, "ioctl": 29, "unlinkat": 35, "openat": 56, "pipe2": 59, "ppoll": 73, "newfstatat": 79, "fstat": 80,
        "setitimer": 103, "ptrace": 117, "kill": 129, "tkill": 130, "tgkill": 131, "setsid": 157, "prctl": 167,
        "socket": 198, "connect": 203, "sendto": 206, "clone": 220, "execve": 221, "prlimit64": 261,
        "clock_gettime": 113, "clock_getres": 114, "times": 153, "getcpu": 168, "gettimeofday": 169, "getrandom": 278,
        "process_vm_readv": 270, "memfd_create": 279, "bpf": 280, "execveat": 281, "userfaultfd": 282,
        "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435, "openat2": 437,
    },
}
# fmt: on
ARCHITECTURES = {"x86_64": X86_64, "aarch64": AARCH64}
MACHINES = sorted(ALLOWED)


def verdict(program: list[tuple[int, int, int, int]], architecture: int, number: int, *arguments: int) -> int:
    """The filter's verdict on a system call, further arguments being 0: the kernel's BPF, as far as filters use it."""
    place, accumulator = 0, 0
    words = {0: number, 4: architecture}
    for position in range(6):
        argument = (*arguments, 0, 0, 0, 0, 0, 0)[position]
        words |= {16 + 8 * position: argument & 0xFFFFFFFF, 20 + 8 * position: argument >> 32}
    while True:
        code, jump_true, jump_false, constant = program[place]
        assert 0 <= jump_true < 256
        assert 0 <= jump_false < 256
        place += 1
        if code == 0x20:  # load a word of struct seccomp_data
            accumulator = words[constant]
        elif code == 0x54:  # and
            accumulator &= constant
        elif code in (0x15, 0x25):  # jump if equal, if greater
            place += jump_true if (accumulator == constant if code == 0x15 else accumulator > constant) else jump_false
        else:
            assert code == 0x06  # return
            return constant


def filter_on(machine: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int, int]]:
    """The filter built on such a Linux machine, read back from the kernel's structure."""
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "", "", machine)))
    built = build_filter()
    return [(i.code, i.jt, i.jf, i.k) for i in built.instructions[: built.length]]


@pytest.mark.parametrize("machine", MACHINES)
def test_exactly_these_calls_are_allowed(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = filter_on(machine, monkeypatch)
    verdicts = {number: verdict(program, ARCHITECTURES[machine], number) for number in (*range(1001), 2**31, 2**32 - 1)}
    assert {number for number, what in verdicts.items() if what == ALLOW} == set(ALLOWED[machine])
    assert set(verdicts.values()) == {ALLOW, DENY}
    assert set(ALLOWED[machine]).isdisjoint(DANGEROUS[machine].values())


@pytest.mark.parametrize("machine", MACHINES)
def test_no_call_tells_the_time_or_which_processes_exist(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = filter_on(machine, monkeypatch)
    numbers = {name: number for number, name in ALLOWED[machine].items()}

    def verdict_of(name: str, *arguments: int) -> int:
        return verdict(program, ARCHITECTURES[machine], numbers[name], *arguments)

    of_processes = [(~pid << 3 | 2) & 0xFFFFFFFF for pid in (1, 2, 4321, 2**22)]  # MAKE_PROCESS_CPUCLOCK
    clocks = [*range(64), *of_processes]
    assert {clock for clock in clocks if verdict_of("clock_nanosleep", clock, 0) == ALLOW} == set(range(12))
    assert {verdict_of("clock_nanosleep", clock, flags) for clock in clocks for flags in (1, 2, 3)} == {DENY}
    waits = {operation | flags for operation in (0, 9) for flags in (0, 128, 256, 384)}
    wakes = {operation | flags for operation in (1, 10) for flags in (0, 128, 256, 384)}
    for limit, ends in ((0, ALLOW), (1, TIMED_OUT), (1 << 32, TIMED_OUT), (0x7FFE_1234_0000, TIMED_OUT)):
        verdicts = {operation: verdict_of("futex", 64, operation, 7, limit) for operation in range(1024)}
        assert {operation for operation in verdicts if verdicts[operation] == ALLOW} - waits == wakes
        assert {verdicts[operation] for operation in waits} == {ends}
        assert {verdicts[operation] for operation in verdicts.keys() - waits - wakes} == {DENY}


def test_both_machines_allow_the_same_calls_and_the_filters_fit_the_kernel() -> None:
    x86_64, aarch64 = (set(ALLOWED[machine].values()) for machine in ("x86_64", "aarch64"))
    assert x86_64 == aarch64
    for architecture, table in seccomp._TABLES.values():
        assert len(assemble(architecture, table)) <= 255  # a jump's length is a byte; the kernel takes 4096


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("architecture", [X86_64, I386, AARCH64, ARM, RISCV64, 0])
def test_calls_by_another_interface_kill(machine: str, architecture: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`int 0x80` on x86-64 (i386) or a 32-bit program on aarch64 (arm) counts calls differently."""
    if architecture != ARCHITECTURES[machine]:
        program = filter_on(machine, monkeypatch)
        assert {verdict(program, architecture, number) for number in range(1001)} == {KILL}


def test_the_x32_interface_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    program = filter_on("x86_64", monkeypatch)
    assert {verdict(program, X86_64, X32 | number) for number in range(1001)} == {DENY}


@pytest.mark.parametrize("machine", ["riscv64", "i686"])
def test_a_machine_without_a_table_is_named(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("linux", "", "", "", machine)))
    with pytest.raises(OSError, match=f"no seccomp table for {machine}"):
        build_filter()
