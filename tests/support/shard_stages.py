"""Stages of a made-up round whose shards the runner that is named computes. What
tests/integration/test_shard_runners.py starts:

    python -m tests.support.shard_stages FOLDER KIND ADDRESS STAGE …

The last line tells how many processes computed shards, whether it was this one, whether it hears SIGTERM then, and
whether all that it has started listens on loopback alone.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from flows.prefect_runs.temporary_server import TemporaryServer
from flows.process import settings
from flows.process.exit_codes import exit_code
from flows.process.signals import Terminated
from flows.stages.dvc_yaml import MODULES, declared_params
from tasks.core.sharding import FanOut, use_fan_out
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.cuda.cards import VISIBLE
from tasks.params.file import load_params, restrict
from tasks.params.machine import RunnerParams
from tasks.params.params import Params
from tests.support.processes import is_loopback, listeners
from tests.support.stage_params import REPOSITORY


class Watched:
    """Notes which processes computed."""

    def __init__(self, by: FanOut) -> None:
        self._by = by
        self.processes: set[int] = set()

    def map(self, function: Callable[[Any], Any], shards: Iterable[Any]) -> Iterator[Any]:
        for process, value in self._by.map(partial(noted, function), shards):
            self.processes.add(process)
            yield value


def noted(function: Callable[[Any], Any], shard: Any) -> tuple[int, Any]:
    return os.getpid(), function(shard)


def fail(shard: list[int]) -> list[int]:
    if 8 in shard:
        raise GraftError("number 8: is not wanted; leave it out")
    return shard


def is_heard() -> bool:
    """Whether SIGTERM still asks this process to end, and does not end it."""
    from prefect.exceptions import TerminationSignal  # what a flow makes of it

    try:
        signal.raise_signal(signal.SIGTERM)
    except (Terminated, TerminationSignal):
        return True
    return False


def die(shard: list[int]) -> list[int]:
    if 8 in shard:
        os.kill(os.getpid(), 9)
    return shard


def card(_: list[int]) -> str | None:
    """What this process may see, after a while in which the others compute, too."""
    time.sleep(0.2)
    return os.environ.get(VISIBLE)


def params_of(root: Path, stage: str) -> Params:
    return restrict(load_params(root / "params.yaml"), declared_params(REPOSITORY, stage))


def main(root: Path, kind: Any, address: str, stages: list[str]) -> None:
    from prefect import flow

    from flows.prefect_runs.shard_runners import ShardRunner

    @flow(persist_result=False)
    def run() -> None:
        with ShardRunner(RunnerParams(kind=kind, workers=2, address=address or None), "auto") as fanned:
            watched = Watched(fanned)
            with use_fan_out(watched):
                for stage in [stage for stage in stages if stage in MODULES]:
                    import_module(MODULES[stage]).run(Layout(root), params_of(root, stage), 1)
            private = all(is_loopback(address) for address, _ in listeners(os.getpid()))
            print(len(watched.processes), os.getpid() in watched.processes, is_heard(), private, flush=True)
            for name in [name for name in stages if name not in MODULES]:
                values = list(fanned.map(globals()[name], [[number] for number in range(12)]))
                if name == "card":
                    print(sorted(set(values)), flush=True)

    run()


if __name__ == "__main__":
    settings.set_environment()
    place = Path(sys.argv[1])
    settings.set_prefect_home(place)
    os.environ["PREFECT_API_URL"] = TemporaryServer().url()  # as graft retrain does
    sys.exit(exit_code(lambda: main(place, sys.argv[2], sys.argv[3], sys.argv[4:]), debug=False))
