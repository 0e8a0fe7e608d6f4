"""Layers of the sandbox: a missing layer has a reason, and memory is watched where the kernel sets no limit."""

import os
import sys
from collections.abc import Iterator

import pytest

from tasks.errors import GraftError
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.sandbox import LAYERS, Program, Sandbox, describe_tier, probe_tier, tier_of
from tasks.programs.sandbox.zygote_client import ZygoteClient
from tasks.records.programs import Result

SOLVE = "def solve(problem):\n    "
TOO_BIG = Result(status="memory", error="MemoryError")


@pytest.fixture(scope="module")
def unlimited() -> Iterator[Sandbox]:
    """A sandbox as on a kernel that does not enforce a limit on the address space."""
    with Sandbox(5.0, 128, allow_weak=False, workers=1, layers=("landlock", "seccomp")) as running:
        yield running


@pytest.mark.parametrize("body", [
    "return len(bytearray(2 * 10**9))", "found = []\n    while True: found.append(bytearray(10**6))",
    "found = {}\n    while True: found[len(found)] = 'x' * 1000", "return len('x' * 400_000_000)",
    "a = bytearray(300_000_000)\n    del a\n    return 5",  # freed before it can be seen
])  # fmt: skip
def test_a_memory_bomb_is_ended_without_a_kernel_limit(unlimited: Sandbox, body: str) -> None:
    (bomb,), (sound,) = unlimited.run([Program(SOLVE + body, ("",)), Program(SOLVE + "return 5 + 0 * len({1})", ("",))])
    assert bomb == TOO_BIG
    assert sound == Result(status="ok", value=5)


def test_a_bomb_in_the_shared_worker_is_ended_too(unlimited: Sandbox) -> None:
    bomb = HEADER + "    return problem * 1000000000\n"
    good = [Program(HEADER + f"    return n[0] + {number}\n", ("3 pens",)) for number in range(20)]
    results = unlimited.run([*good, Program(bomb, ("3 pens",))])
    assert [result.value for (result,) in results[:-1]] == [3 + number for number in range(20)]
    assert results[-1] == [TOO_BIG]


def test_a_program_below_the_limit_is_not_ended(unlimited: Sandbox) -> None:
    body = "import time\n    a = bytearray(50 << 20)\n    time.sleep(0.05)\n    return len(a)"
    assert unlimited.run([Program(SOLVE + body, ("",))]) == [[Result(status="ok", value=50 << 20)]]


def test_every_missing_layer_has_a_reason() -> None:
    worker = ZygoteClient(1.0, 256, LAYERS)
    try:
        worker.start()
        assert set(worker.layers) | set(worker.reasons) == set(LAYERS)
        assert set(worker.layers).isdisjoint(worker.reasons)
        assert "memory" in worker.layers
        assert ("user" in worker.layers) == (os.geteuid() == 0)
    finally:
        worker.close()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_refused(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    for start in (lambda: Sandbox(1.0, 64, True), lambda: Sandbox(1.0, 64, False), probe_tier):
        with pytest.raises(GraftError) as error:
            start()
        assert str(error.value) == f"sandbox: runs on Linux only, not on {platform}; use a Linux machine or container"


def test_tiers_and_their_descriptions() -> None:
    tiers = {"landlock seccomp": "full", "user landlock memory seccomp": "full", "landlock": "partial"}
    tiers |= {"seccomp memory": "partial", "user memory": "limits-only", "": "limits-only"}
    assert {layers: tier_of(tuple(layers.split())) for layers in tiers} == tiers
    client = ZygoteClient(1.0, 256, LAYERS)
    client.layers, client.reasons = ["landlock"], {"seccomp": "no table", "memory": "not kept", "user": "not root"}
    assert describe_tier(client) == "programs are held by landlock; no seccomp: no table; no memory: not kept"
    client.layers, client.reasons = ["landlock", "seccomp", "memory"], {}
    assert describe_tier(client) == "programs are held by landlock and seccomp"
