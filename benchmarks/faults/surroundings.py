"""Programs that look for the real time or for this machine: those whose answers depend on it, or name it."""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.machine_routes import CLOCKS, MACHINE, answers_elsewhere, answers_here, shown


def measure() -> dict[str, float]:
    """`clock_in_values` and `machine_in_values`, and how many programs of each kind were tried."""
    return {
        "clock_in_values": _count(CLOCKS),
        "machine_in_values": _count(MACHINE),
        "clock_routes": len(CLOCKS),
        "machine_routes": len(MACHINE),
    }


def _count(programs: Mapping[str, str]) -> int:
    with TemporaryDirectory() as folder:
        here, elsewhere = answers_here(programs), answers_elsewhere(programs, Path(folder))
    found = [name for name in programs if shown(here[name], elsewhere[name])]
    for name in found:
        print(f"{name}: {here[name]}, elsewhere {elsewhere[name]}")
    return len(found)


if __name__ == "__main__":
    print(json.dumps(measure()))
