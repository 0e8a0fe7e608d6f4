"""Who computes the shards of a stage: Prefect's own task runners, as `runner` in params.yaml says.

Nothing depends on it but the time: a stage's shards are a function of its files and params, and what comes of them is
taken in their order (tasks/core/sharding.py). A runner is started when a stage has two shards, and kept until the run
ends.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain, islice
from multiprocessing import active_children, parent_process
from multiprocessing.resource_tracker import ensure_running
from signal import SIGINT, SIGTERM, Signals, getsignal, signal
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import CrashedRun
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner

from flows.process import settings
from flows.process.signals import block_signals
from tasks.artifacts import digest_text
from tasks.core.child_process import end_with_parent, python_path
from tasks.errors import GraftError, TransientError
from tasks.params.sections import Runner
from tasks.sources.process_sources import source_digests_at_start

Shard = TypeVar("Shard")
Value = TypeVar("Value")

AHEAD = 2
"""Shards for each worker that are under way at once: one that is computed, one that waits."""

LOOPBACK = "127.0.0.1"
"""Where a Dask that is started here listens, as Ray does; what they send can run code."""

GIVES_UP_QUIETLY = "import logging; logging.getLogger('distributed.worker.state_machine').setLevel(logging.ERROR)"
"""What a worker of our own Dask begins with. Its one warning there is of shards that it is at when it is ended."""


@task(name="shard", cache_policy=NO_CACHE, persist_result=False)
def compute(work: Callable[[], Any], sources: str, threads: int) -> "Made":
    """One shard, wherever that is: a function is all that Prefect sees of it.

    `sources` are those of the one that asks: with others the bytes may be others.
    """
    settings.set_environment()
    _end_with_the_run()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    if sources != digest_sources():
        raise GraftError(
            "runner.address: a worker has another Graft than this machine; install this one there, then run again"
        )
    return Made(work())


@cache
def _end_with_the_run() -> None:
    """A worker of `processes` ends with its run: one that is killed cannot end it."""
    run = parent_process()
    if run is not None:
        end_with_parent(run.join)


class Made:
    """What came of a shard; Prefect does not look into it."""

    def __init__(self, value: Any) -> None:
        self.value = value


def digest_sources() -> str:
    """sha256 of the source of all stages, hexadecimal."""
    return digest_text(repr(source_digests_at_start()))


class Fanned:
    """A FanOut by a task runner. Use it in a `with` block, inside a flow.

    Workers do not hear Ctrl-C: one that is interrupted hands KeyboardInterrupt on as the value of its shard, and ends
    the thread that waits for it; the run would hang.
    """

    def __init__(self, params: Runner) -> None:
        """Raises GraftError where what the runner needs is not installed."""
        self._params = params
        self._workers = params.workers or os.cpu_count() or 1
        self._runner: TaskRunner[Any] | None = None
        _refuse_missing(params)

    def __enter__(self) -> "Fanned":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def map(self, function: Callable[[Shard], Value], shards: Iterable[Shard]) -> Iterator[Value]:
        """See FanOut. A lone shard is computed here."""
        rest = iter(shards)
        first = list(islice(rest, 2))
        if self._params.kind == "sequential" or len(first) < 2:
            yield from map(function, chain(first, rest))
            return
        try:
            yield from self._values(partial(partial, function), chain(first, rest))
        except BaseException:
            self._end(at_once=True)  # shards that nobody waits for are given up
            raise

    def _values(self, work_of: Callable[[Shard], Callable[[], Value]], shards: Iterable[Shard]) -> Iterator[Value]:
        runner = self._started()
        threads = max((os.cpu_count() or 1) // self._workers, 1)
        under_way: deque[Any] = deque()
        for shard in shards:
            parameters = {"work": work_of(shard), "sources": digest_sources(), "threads": threads}
            with block_signals(SIGINT):
                under_way.append(runner.submit(compute, parameters))
            if len(under_way) >= AHEAD * self._workers:
                yield self._value(under_way.popleft())
        while under_way:
            yield self._value(under_way.popleft())

    def _value(self, future: Any) -> Any:
        """Raises what the shard raised, TransientError where its worker was killed."""
        try:
            return future.result().value
        except Exception as error:
            if not _is_a_loss(error):
                raise
            raise TransientError(
                f"runner: a worker of {self._params.kind} was lost ({type(error).__name__}), as where memory is short "
                "or somebody killed it; run it again, with fewer runner.workers or a smaller shard_size"
            ) from error

    def _started(self) -> TaskRunner[Any]:
        if self._runner is None:
            runner = _made(self._params, self._workers)
            ensure_running()  # whoever starts Python's resource tracker is deaf to nothing any more
            try:
                with block_signals(SIGINT), _still_heard(SIGTERM):
                    self._runner = runner.__enter__()
            except (OSError, TimeoutError, ConnectionError) as error:
                where = self._params.address or "here"
                raise TransientError(
                    f"runner: no {self._params.kind} ({where}): {error}; see runner.address"
                ) from error
        return self._runner

    def _end(self, at_once: bool = False) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        if at_once and self._params.kind == "processes":  # it would wait for the shards that they are at
            # A worker killed while it writes a log message keeps that queue's lock, and Python would wait for it at exit.
            runner._subprocess_message_queue.cancel_join_thread()  # type: ignore[attr-defined]
            for process in active_children():
                process.kill()
        runner.__exit__(None, None, None)


@contextmanager
def _still_heard(number: Signals) -> Iterator[None]:
    """What a signal does stays what it was: Ray would die of SIGTERM, with no stage's outputs put back."""
    handler = getsignal(number)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal(number, handler)


def _made(params: Runner, workers: int) -> TaskRunner[Any]:
    if params.kind == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    if params.kind == "processes":
        return ProcessPoolTaskRunner(max_workers=workers)
    runner: TaskRunner[Any] = (_dask if params.kind == "dask" else _ray)(params.address, workers)
    return runner


def _dask(address: str | None, workers: int) -> Any:
    from prefect_dask import DaskTaskRunner

    if address:
        return DaskTaskRunner(address=address)
    own: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "host": LOOPBACK}
    own |= {"dashboard_address": f"{LOOPBACK}:0", "scheduler_kwargs": {"dashboard": False}}  # none, on a free port
    own |= {"preload": GIVES_UP_QUIETLY}
    return DaskTaskRunner(cluster_kwargs=own)


def _ray(address: str | None, workers: int) -> Any:
    if not address:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else it listens on every address, on any system
    from prefect_ray import RayTaskRunner

    if address:
        return RayTaskRunner(address=address, init_kwargs={"log_to_driver": False})
    own: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False, "log_to_driver": False}
    own["runtime_env"] = {"env_vars": {"PYTHONPATH": python_path()}}
    return RayTaskRunner(init_kwargs=own)


def _is_a_loss(error: Exception) -> bool:
    """Whether a worker ended before its shard did."""
    of = type(error).__module__.partition(".")[0]
    return isinstance(error, BrokenExecutor | CrashedRun) or of in ("distributed", "ray")


def _refuse_missing(params: Runner) -> None:
    module = {"dask": "prefect_dask", "ray": "prefect_ray"}.get(params.kind)
    if module and find_spec(module) is None:
        raise GraftError(
            f"runner.kind: {params.kind} is not installed; install it: pip install -c constraints.txt "
            f"-e '.[{params.kind}]'"
        )
