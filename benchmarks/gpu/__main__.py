"""Speed, memory and laws of Graft on one card, with TRL's step on the same card.

    python -m benchmarks.gpu                      # all phases, a quarter of an hour on a card
    python -m benchmarks.gpu --seconds 300 decode/0.5b step/0.5b:120 trl/0.5b/plain
    python -m benchmarks.gpu --tiny               # on a CPU: does it run?

Each phase (benchmarks/gpu/PHASE.py) is a process of its own with a deadline: the seconds after its colon, or what is
left. Models have the shapes of Qwen2.5 and random weights; nothing is downloaded. Figures are printed and appended to
FOLDER/figures.jsonl as they come. The last line of standard output is one JSON object of all, also after SIGTERM:

    decode_bandwidth_share      of the fastest backend, 512 rows
    update_peak_share           of the bfloat16 rate of the card
    step_speedup                seconds of TRL's step, by `generate`, over Graft's; step_speedup_continuous: by
                                continuous batching
    memory_share                Graft's peak over that of TRL's step
    laws_held                   how many of `laws`
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.process.exit_codes import exit_code
from tests.support.workspace import PROJECT

PHASES = (
    *("env", "decode/0.5b", "step/0.5b", "trl/0.5b/plain", "trl/0.5b/continuous", "laws", "influence/0.5b"),
    *("step/0.5b/update.checkpointing=true/update.micro_batch_tokens=9216", "profile/0.5b", "chain/default"),
)
SHORTEST = 8.0  # seconds left in which a phase is begun

Child = subprocess.Popen[str]
Figures = dict[str, dict[str, Any]]


def summary(phases: Figures) -> dict[str, Any]:
    """The last line."""
    step, plain, continuous, laws, decode = (
        phases.get(name, {}) for name in ("step/0.5b", "trl/0.5b/plain", "trl/0.5b/continuous", "laws", "decode/0.5b")
    )
    held = [value for name, value in laws.items() if name.endswith("_held")]
    return {
        "decode_bandwidth_share": decode.get("bandwidth_share"),
        "update_peak_share": step.get("update_peak_share"),
        "step_speedup": _ratio(plain.get("step_s"), step.get("step_s")),
        "step_speedup_continuous": _ratio(continuous.get("step_s"), step.get("step_s")),
        "memory_share": _ratio(max(step.get("sample_gib", 0), step.get("update_gib", 0)), plain.get("gib")),
        "laws_held": sum(held),
        "laws": len(held),
        "phases": phases,
    }


def _ratio(a: float | None, b: float | None) -> float | None:
    return round(a / b, 4) if a and b else None


def start(name: str, options: argparse.Namespace) -> Child:
    """A process that loads its libraries and waits for its turn."""
    words = [name, str(options.out.resolve()), options.model, "tiny" if options.tiny else "full"]
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.gpu.phase", *words],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(options.out / "log.txt").open("a"),
        text=True,
        start_new_session=True,
    )


def end(child: Child) -> None:
    """With the processes that it started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)


def take_turn(child: Child, seconds: float, record: Callable[[dict[str, Any]], None]) -> None:
    """Let a phase run; it is ended after these seconds."""
    assert child.stdin is not None
    assert child.stdout is not None
    started, deadline = time.monotonic(), threading.Timer(seconds, end, [child])
    deadline.daemon = True  # an end by SIGTERM does not wait for it
    deadline.start()
    with suppress(BrokenPipeError):  # it has ended; its code says so
        child.stdin.write(f"{seconds}\n")
        child.stdin.flush()
    for line in child.stdout:
        record(json.loads(line))
    code = child.wait()
    deadline.cancel()
    record({"seconds": round(time.monotonic() - started, 1)} | ({"code": code} if code else {}))


def main(arguments: Sequence[str]) -> None:
    """Run the phases, and print all figures at the end."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("phases", nargs="*", metavar="PHASE[:SECONDS]", help=f"by default {' '.join(PHASES)}")
    parser.add_argument("--seconds", type=float, default=3600.0, help="deadline of the whole")
    parser.add_argument("--out", type=Path, default=Path(".graft/gpu"), metavar="FOLDER", help="of figures and tables")
    parser.add_argument("--model", default="", metavar="FILE", help="GGUF file of phase chain/smollm2")
    parser.add_argument("--tiny", action="store_true", help="small shapes, on a CPU")
    options = parser.parse_args(arguments)
    deadline, phases = time.monotonic() + options.seconds, Figures()
    options.out.mkdir(parents=True, exist_ok=True)
    limits = {name: float(limit or "inf") for name, _, limit in (p.partition(":") for p in options.phases or PHASES)}

    def record(name: str, figures: dict[str, Any]) -> None:
        phases.setdefault(name, {}).update(figures)
        print(f"{name}: {json.dumps(figures)}", flush=True)
        with (options.out / "figures.jsonl").open("a") as lines:
            lines.write(json.dumps({"phase": name} | figures) + "\n")

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    children = {name: start(name, options) for name in limits}
    try:
        for child in children.values():
            assert child.stdout is not None
            child.stdout.readline()  # its libraries are loaded
        for name, limit in limits.items():
            seconds = min(limit, deadline - time.monotonic())
            if seconds < SHORTEST:
                record(name, {"skipped": True})
                continue
            take_turn(children[name], seconds, lambda figures, name=name: record(name, figures))  # type: ignore[misc]
    finally:
        for child in children.values():
            end(child)
        print(json.dumps(summary(phases)), flush=True)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
