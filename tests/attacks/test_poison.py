"""No program changes what another one gives, or reads what another one gave: poison_list.py, chance_list.py."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.programs.sandbox import protocol
from tasks.programs.sandbox import sandbox as module
from tasks.programs.sandbox.determinism import may_differ
from tasks.programs.sandbox.plain_programs import is_plain
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.programs.sandbox.zygote_client import ZygoteClient
from tests.attacks.attack_list import LIBC, solve
from tests.attacks.chance_list import CHANCE
from tests.attacks.poison_list import INNOCENT, PATCHES, QUESTION, VEHICLES, poisons

INNOCENTS = [Program(code, (QUESTION,)) for code in INNOCENT]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(2.0, 256, allow_weak=False, workers=1) as running:
        yield running


def test_the_attacks_are_many_and_none_is_plain() -> None:
    assert len(poisons()) == len(VEHICLES) + len(PATCHES) >= 140
    assert [name for name, code in poisons().items() if is_plain(code)] == []
    assert all(is_plain(code) and not may_differ(code) for code in INNOCENT)


def test_no_program_changes_another_one(sandbox: Sandbox) -> None:
    attacks = [Program(code, (QUESTION,)) for code in poisons().values()]
    mixed = [program for attack in attacks for program in (attack, *INNOCENTS)]
    results = sandbox.run(mixed)
    answers = [[result.value for (result,) in results[start + 1 : start + 6]] for start in range(0, len(mixed), 6)]
    assert answers == [list(INNOCENT.values())] * len(attacks)
    assert results[::6] == sandbox.run(attacks[::-1])[::-1]  # nor is changed by what ran before


def test_a_program_that_is_taken_for_plain_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the allow-list had a hole: every child serves one batch, and one whose operators have changed counts for
    nothing."""
    monkeypatch.setattr(module, "is_plain", lambda _: True)
    ends = (
        "the end",
        "an abort",
        "a fault",
        "time",
        "memory",
        "ending of values",
        "the operators",
        "the zygote's list",
    )
    with Sandbox(2.0, 256, allow_weak=False, workers=1) as sandbox:
        for name in ends:
            attack = Program(poisons()[f"patch: {name}"], (QUESTION,))
            for programs in ([attack, *INNOCENTS], INNOCENTS):
                found = [result.value for (result,) in sandbox.run(programs)[-len(INNOCENTS) :]]
                assert found == list(INNOCENT.values()), name


def test_plain_programs_share_a_child() -> None:
    """A batch that failed would be run one by one, with the same results at fifty times the price."""
    client = ZygoteClient(2.0, 256, module.LAYERS)
    try:
        for _ in range(2):
            payload = json.dumps([[code, [QUESTION]] for code in INNOCENT]).encode()
            kind, endings = client.ask(protocol.BATCH, payload)
            assert kind == protocol.ENDINGS
            assert [value for _, value, _ in json.loads(endings)] == list(INNOCENT.values())
    finally:
        client.close()


def run_in_any_order(seed: int) -> dict[str, str]:
    """Name → result of each program of chance, among others, in a new sandbox."""
    names = random.Random(seed).sample(sorted(CHANCE), len(CHANCE))
    with Sandbox(5.0, 256, allow_weak=False, workers=1 + seed % 2) as sandbox:
        results = sandbox.run([Program(CHANCE[name], (QUESTION,)) for name in names])
    return {name: result.model_dump_json() for name, (result,) in zip(names, results, strict=True)}


@pytest.mark.slow
def test_a_result_is_the_same_in_every_run() -> None:
    first = run_in_any_order(0)
    assert [name for name in CHANCE if "object at 0x" in first[name]] == []
    for seed in (1, 2):
        other = run_in_any_order(seed)
        assert {name: (first[name], other[name]) for name in CHANCE if first[name] != other[name]} == {}


def test_a_few_results_are_the_same_in_two_runs() -> None:
    names = [
        "max of functions",
        "decorator",
        "default",
        "sum over a set",
        "set of objects",
        "error of an id",
        "set of texts",
    ]
    programs = [Program(CHANCE[name], (QUESTION,)) for name in names]
    runs = []
    for order in (1, -1):
        with Sandbox(5.0, 256, allow_weak=False, workers=1) as sandbox:
            runs.append(sandbox.run(programs[::order])[::order])
    assert runs[0] == runs[1]


ANSWER = solve("return 'ZQ' + str(numbers(problem)[0] * 1000003) + 'QZ'")
"""Its answer is nowhere in the source."""

SCANNER = solve(
    "c = sys.modules['ctypes']\n"
    "libc.syscall.restype, libc.malloc.restype = c.c_long, c.c_size_t\n"
    "objects = [str(object())[-15:-1], str(bytes.fromhex)[-15:-1], str(solve)[-15:-1]]\n"
    "places = [int(x, 16) for x in objects] + [libc.malloc(9), libc.malloc(10**6)]\n"
    "pages = {p for x in places for p in range((x >> 12) - 3000, (x >> 12) + 3000)}\n"
    "seen, looked = set(), 0\n"
    "for p in sorted(pages):\n"
    "    if libc.syscall(14, 0, c.c_void_p(p << 12), None, c.c_long(8)) == 0:\n"  # rt_sigprocmask reads it or says no
    "        looked += 1\n"
    "        seen.update(re.findall(b'ZQ[0-9]{7,9}QZ', c.string_at(p << 12, 4096)))\n"
    "return 5 if seen else 3 if looked > 1000 else 4",
    "re",
    LIBC,
)
"""Looks for it in all of its memory, most of which is that of the zygote."""


def test_no_child_has_the_answers_of_those_before(sandbox: Sandbox) -> None:
    for _ in range(2):
        (answer,), (found,) = sandbox.run([Program(ANSWER, (QUESTION,)), Program(SCANNER, (QUESTION,))])
        assert answer.value == "ZQ12000036QZ"
        assert found.value == 3, found


def test_the_scanner_is_real(sandbox: Sandbox) -> None:
    own = SCANNER.replace("seen, looked", "kept = 'ZQ' + str(numbers(problem)[0] * 1000003) + 'QZ'\n    seen, looked")
    assert sandbox.run([Program(own, (QUESTION,))])[0][0].value == 5


def test_no_call_says_which_processes_exist(sandbox: Sandbox) -> None:
    """The kernel's answers on the process id of this test and on one that no process has are the same refusals."""
    look = solve(
        "c = sys.modules['ctypes']\n"
        "libc = c.CDLL(None, use_errno=True)\n"
        "calls = libc.clock_gettime, libc.clock_getres\n"
        "seen = [(f(~int(problem) << 3 | 2, bytes(16)), c.get_errno()) for f in calls]\n"
        "owner = int(problem).to_bytes(4, 'little')\n"
        "return str([*seen, libc.syscall(202, owner, 6, 0, 0), c.get_errno()])",
        LIBC,
    )
    missing = str(int(Path("/proc/sys/kernel/pid_max").read_text()) - 1)
    one, other = sandbox.run([Program(look, (str(os.getpid()), missing))])[0]
    assert one == other
    assert one.value == "[(-1, 1), (-1, 1), -1, 1]"
