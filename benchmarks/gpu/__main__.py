"""Speed, memory and laws of Graft on one card, with TRL's step on the same card.

    python -m benchmarks.gpu                                    # all phases, half an hour
    python -m benchmarks.gpu --seconds 440 decode/0.5b step/0.5b:120 trl/0.5b/plain:110
    python -m benchmarks.gpu --tiny                             # on a CPU: does it run?

Each phase is a process of its own with a deadline: the seconds after its colon, or what is left. Models have the shapes
of Qwen2.5 and random weights; nothing is downloaded. Figures are printed and appended to FOLDER/figures.jsonl as they
come; those that the folder has already are kept. The last line of standard output is one JSON object of all, also where
the process is ended by SIGTERM:

    decode_bandwidth_share      of the fastest backend, 512 rows (benchmarks/gpu/decode.py)
    update_peak_share           of the bfloat16 rate of the card (benchmarks/gpu/step.py)
    step_speedup                seconds of TRL's step, by `generate`, over Graft's; step_speedup_continuous: by
                                continuous batching
    memory_share                Graft's peak over that of TRL's step
    laws_held                   of `laws` (benchmarks/gpu/laws.py)
    phases                      the figures of each phase
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.support.workspace import PROJECT
from flows.process.exit_codes import exit_code

PHASES = (
    *("env", "decode/0.5b", "step/0.5b", "trl/0.5b/plain", "trl/0.5b/continuous", "laws", "influence/0.5b"),
    *("profile/0.5b", "chain/default"),
)
SHORTEST = 8.0  # seconds left in which a phase is begun

Figures = dict[str, dict[str, Any]]


def summary(figures: Figures) -> dict[str, Any]:
    """The last line."""
    step, laws = figures.get("step/0.5b", {}), figures.get("laws", {})
    trl = {name: figures.get(f"trl/0.5b/{name}", {}) for name in ("plain", "continuous")}
    held = [value for name, value in laws.items() if name.endswith("_held")]
    memory = max(step.get("sample_gib", 0), step.get("update_gib", 0))
    return {
        "decode_bandwidth_share": figures.get("decode/0.5b", {}).get("bandwidth_share"),
        "update_peak_share": step.get("update_peak_share"),
        "step_speedup": _ratio(trl["plain"].get("step_s"), step.get("step_s")),
        "step_speedup_continuous": _ratio(trl["continuous"].get("step_s"), step.get("step_s")),
        "memory_share": _ratio(memory, trl["plain"].get("gib")),
        "laws_held": sum(held),
        "laws": len(held),
        "phases": figures,
    }


def _ratio(a: float | None, b: float | None) -> float | None:
    return round(a / b, 4) if a and b else None


class Child:
    """The process of a phase, which loads its libraries and then waits for its turn."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        command = [sys.executable, "-u", "-W", "ignore", "-m", "benchmarks.gpu.phase"]
        command += [name, str(options.out.resolve()), options.model, "tiny" if options.tiny else "full"]
        self._log = (options.out / "log.txt").open("a")
        self._process = subprocess.Popen(
            command,
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def wait(self) -> None:
        """Until its libraries are loaded, or it has ended."""
        self._output.readline()

    def turn(self, seconds: float, record: "Record", name: str) -> None:
        """Take the phase's figures; it is ended after these seconds."""
        started = time.monotonic()
        deadline = threading.Timer(seconds, self.end)
        deadline.start()
        try:
            self._input.write(f"{seconds}\n")
            self._input.flush()
        except BrokenPipeError:
            pass  # its code says so
        for line in self._output:
            record.add(name, json.loads(line))
        code = self._process.wait()
        deadline.cancel()
        record.add(name, {"seconds": round(time.monotonic() - started, 1)} | ({"code": code} if code else {}))

    def end(self) -> None:
        """End it and the processes that it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)


class Record:
    """Figures by phase; each is a line of a file at once."""

    def __init__(self, path: Path) -> None:
        self.figures: Figures = {}
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines:
            self._keep(**json.loads(line))
        self._file = path.open("a")

    def add(self, name: str, figures: dict[str, Any]) -> None:
        self._keep(name, figures)
        print(f"{name}: {json.dumps(figures)}", flush=True)
        print(json.dumps({"name": name, "figures": figures}), file=self._file, flush=True)

    def _keep(self, name: str, figures: dict[str, Any]) -> None:
        self.figures.setdefault(name, {}).update(figures)


def main(arguments: Sequence[str]) -> None:
    """Run the phases, and print all figures at the end."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("phases", nargs="*", metavar="PHASE[:SECONDS]", help=f"by default {' '.join(PHASES)}")
    parser.add_argument("--seconds", type=float, default=1800.0, help="deadline of the whole")
    parser.add_argument("--out", type=Path, default=Path("gpu"), metavar="FOLDER", help="of figures and tables")
    parser.add_argument("--model", default="", metavar="FILE", help="GGUF file of phase chain/smollm2")
    parser.add_argument("--tiny", action="store_true", help="small shapes, on a CPU")
    options = parser.parse_args(arguments)
    end = time.monotonic() + options.seconds
    options.out.mkdir(parents=True, exist_ok=True)
    record = Record(options.out / "figures.jsonl")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    limits = {name: float(limit or "inf") for name, _, limit in (p.partition(":") for p in options.phases or PHASES)}
    children = {name: Child(name, options) for name in limits}
    try:
        for child in children.values():
            child.wait()
        for name, limit in limits.items():
            seconds = min(limit, end - time.monotonic())
            if seconds < SHORTEST:
                record.add(name, {"skipped": True})
            else:
                children[name].turn(seconds, record, name)
    finally:
        for child in children.values():
            child.end()
        print(json.dumps(summary(record.figures)), flush=True)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
