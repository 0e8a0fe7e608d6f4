"""The BPF allow-list, run by a small interpreter of its own for both machines; the kernel's part is in the attacks."""

import pytest

from tasks.workflows.seccomp import _TABLES, assemble

ALLOW, DENY, KILL = 0x7FFF0000, 0x00050001, 0x80000000
DANGEROUS = {
    "x86_64": {"open": 2, "socket": 41, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "ptrace": 101}
    | {
        "setitimer": 38,
        "setsid": 112,
        "prctl": 157,
        "tgkill": 234,
        "openat": 257,
        "clone3": 435,
        "io_uring_setup": 425,
    },
    "aarch64": {"openat": 56, "socket": 198, "clone": 220, "execve": 221, "kill": 129, "ptrace": 117, "setsid": 157}
    | {"prctl": 167, "tgkill": 131, "setitimer": 103, "clone3": 435, "io_uring_setup": 425},
}


def verdict(machine: str, architecture: int, number: int) -> int:
    """What the filter says of system call `number`: BPF as in the kernel, of the four instructions in use."""
    program = assemble(*_TABLES[machine])
    place, accumulator = 0, 0
    while True:
        code, jump_true, jump_false, constant = program[place]
        assert 0 <= jump_true < 256
        place += 1
        if code == 0x20:
            accumulator = {0: number, 4: architecture}[constant]
        elif code == 0x15:
            place += jump_true if accumulator == constant else jump_false
        else:
            assert code == 0x06
            return constant


@pytest.mark.parametrize("machine", sorted(_TABLES))
def test_the_table_is_allowed_and_nothing_else(machine: str) -> None:
    architecture, table = _TABLES[machine]
    assert len(set(table.values())) == len(table)
    allowed = {number for number in range(1024) if verdict(machine, architecture, number) == ALLOW}
    assert allowed == set(table.values())
    assert allowed.isdisjoint(DANGEROUS[machine].values())


@pytest.mark.parametrize("machine", sorted(_TABLES))
def test_foreign_calls(machine: str) -> None:
    architecture, table = _TABLES[machine]
    for number in table.values():
        assert verdict(machine, architecture ^ 1, number) == KILL
        assert verdict(machine, architecture, number | 0x40000000) == DENY  # the x32 ABI
