"""Compute the shards of a stage by one of Prefect's task runners, as `runner` in params.yaml says.

Results do not depend on the runner: shards are a function of a stage's files and params, and their results are taken in
order (tasks/core/sharding.py). A runner is started by the first stage with two shards, and kept until the run ends.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain, islice
from math import ceil
from multiprocessing import active_children, current_process, parent_process
from multiprocessing.resource_tracker import ensure_running
from signal import SIGINT, SIGTERM, Signals, getsignal, signal
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import CrashedRun
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from flows.prefect_runs.task_run_logs import log_to_prefect
from flows.process import settings
from flows.process.signals import block_signals
from tasks.artifacts import digest_text
from tasks.core.child_process import end_with_parent, python_path
from tasks.core.loopback import HOST
from tasks.errors import GraftError, TransientError
from tasks.model.cuda.cards import take_card, visible_cards
from tasks.model.device import use_device
from tasks.params.fields import Device
from tasks.params.machine import RunnerParams
from tasks.sources.process_sources import source_digests_at_start

Shard = TypeVar("Shard")
Value = TypeVar("Value")

QUEUED_PER_WORKER = 2
"""Shards submitted at once for each worker: one that is computed, one that waits."""

QUIET_WORKER = "import logging; logging.getLogger('distributed.worker.state_machine').setLevel(logging.ERROR)"
"""Run at the start of a worker of our own Dask, whose only warning there is about shards that it leaves when ended."""


@task(name="shard", cache_policy=NO_CACHE, persist_result=False)
def compute_shard(
    work: Callable[[], Any], sources: str, threads: int, device: Device, cards: Sequence[str]
) -> "ShardResult":
    """Compute one shard, on any machine. Its work is a function, because Prefect inspects all other arguments.

    `sources`: digest of the run's sources. With others the results might differ. `cards`: that the workers share, each
    process one of them; none where others assign them.
    """
    settings.set_environment()
    log_to_prefect()
    _end_with_the_run()
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    if sources != digest_sources():
        raise GraftError(
            "machine.runner.address: a worker has another Graft than this machine; install this one there, then run "
            "again"
        )
    if cards:
        take_card(cards, current_process()._identity[-1])  # the run's processes are numbered as they are started
    with use_device(device):
        return ShardResult(work())


@cache
def _end_with_the_run() -> None:
    """A worker of `processes` ends with its run: one that is killed cannot end it."""
    run = parent_process()
    if run is not None:
        end_with_parent(run.join)


class ShardResult:
    """The value of a shard, which Prefect does not inspect."""

    def __init__(self, value: Any) -> None:
        self.value = value


def digest_sources() -> str:
    """sha256 of the sources of all stages, hexadecimal."""
    return digest_text(repr(source_digests_at_start()))


class ShardRunner:
    """A FanOut by a task runner. Use it in a `with` block, inside a flow.

    SIGINT is blocked in workers: an interrupted one would return KeyboardInterrupt as the value of its shard, which
    ends the thread that waits for it, and the run would hang.
    """

    def __init__(self, params: RunnerParams, device: Device) -> None:
        """Raises GraftError if the package that the runner needs is not installed."""
        self._params, self._device = params, device
        self._workers = params.workers or os.cpu_count() or 1
        self._runner: TaskRunner[Any] | None = None
        _refuse_missing(params)

    def __enter__(self) -> "ShardRunner":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def map(self, function: Callable[[Shard], Value], shards: Iterable[Shard]) -> Iterator[Value]:
        """The values of the shards in their order, as of a FanOut. A single shard is computed in this process."""
        rest = iter(shards)
        first = list(islice(rest, 2))
        if self._params.kind == "sequential" or len(first) < 2:
            yield from map(function, chain(first, rest))
            return
        try:
            yield from self._values(function, chain(first, rest))
        except BaseException:
            self._end(at_once=True)  # abandon the shards that remain
            raise

    def _values(self, function: Callable[[Shard], Value], shards: Iterable[Shard]) -> Iterator[Value]:
        runner = self._started()
        threads = max((os.cpu_count() or 1) // self._workers, 1)
        common = {"sources": digest_sources(), "threads": threads, "device": self._device, "cards": self._cards()}
        under_way: deque[Any] = deque()
        for shard in shards:
            parameters = common | {"work": partial(function, shard)}
            with block_signals(SIGINT), self._share_of_card():
                under_way.append(runner.submit(compute_shard, parameters))
            if len(under_way) >= QUEUED_PER_WORKER * self._workers:
                yield self._value(under_way.popleft())
        while under_way:
            yield self._value(under_way.popleft())

    def _cards(self) -> list[str]:
        """The cards of the workers that are started here; a cluster's workers have their own, and Ray assigns them."""
        is_ours = self._params.kind in ("processes", "dask") and self._params.address is None
        return visible_cards() if is_ours and self._device != "cpu" else []

    def _share_of_card(self) -> AbstractContextManager[Any]:
        """In the block shards ask Ray for a card, or for as much of one as lets all workers compute at once: Ray hides
        the cards from those that do not ask."""
        if self._params.kind != "ray" or self._device == "cpu":
            return nullcontext()
        import ray
        from prefect_ray.context import remote_options

        cards = ray.cluster_resources().get("GPU", 0)  # type: ignore[no-untyped-call]
        return remote_options(num_gpus=1 / ceil(self._workers / cards)) if cards else nullcontext()

    def _value(self, future: Any) -> Any:
        """Raises what the shard raised, or TransientError if its worker was killed."""
        try:
            return future.result().value
        except Exception as error:
            if not _is_worker_loss(error):
                raise
            raise TransientError(
                f"runner: a worker of {self._params.kind} was lost ({type(error).__name__}), as where memory is short "
                "or somebody killed it; run it again, with fewer machine.runner.workers or a smaller shard_size"
            ) from error

    def _started(self) -> TaskRunner[Any]:
        if self._runner is None:
            runner = _make_runner(self._params, self._workers)
            ensure_running()  # starting Python's resource tracker would unblock the signals
            try:
                with block_signals(SIGINT), _keep_handler(SIGTERM):
                    self._runner = runner.__enter__()
            except OSError as error:
                where = self._params.address or "here"
                token = ", and set RAY_AUTH_MODE=token if it asks for tokens" if self._params.kind == "ray" else ""
                raise TransientError(
                    f"runner: no {self._params.kind} ({where}): {error}; see machine.runner.address{token}"
                ) from error
        return self._runner

    def _end(self, at_once: bool = False) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        if at_once and self._params.kind == "processes":  # it would wait for the shards in progress
            # A worker killed while it writes a log message keeps the queue's lock, for which Python would wait at exit.
            runner._subprocess_message_queue.cancel_join_thread()  # type: ignore[attr-defined]
            for process in active_children():
                process.kill()
        runner.__exit__(None, None, None)


@contextmanager
def _keep_handler(number: Signals) -> Iterator[None]:
    """Restore the handler of a signal after the block: Ray's for SIGTERM would end the run without cleaning up."""
    handler = getsignal(number)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal(number, handler)


def _make_runner(params: RunnerParams, workers: int) -> TaskRunner[Any]:
    if params.kind == "processes":
        return ProcessPoolTaskRunner(max_workers=workers)
    runner: TaskRunner[Any] = (_dask if params.kind == "dask" else _ray)(params.address, workers)
    return runner


def _dask(address: str | None, workers: int) -> Any:
    from prefect_dask import DaskTaskRunner

    if address:
        return DaskTaskRunner(address=address)
    options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1}
    options |= {"host": HOST}  # as Ray does: its messages can run code
    options |= {"dashboard_address": f"{HOST}:0", "scheduler_kwargs": {"dashboard": False}}  # none, on a free port
    options |= {"preload": QUIET_WORKER}
    return DaskTaskRunner(cluster_kwargs=options)


def _ray(address: str | None, workers: int) -> Any:
    if not address:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else it listens on every address, on any system
    from prefect_ray import RayTaskRunner

    if address:
        return RayTaskRunner(address=address, init_kwargs={"log_to_driver": False})
    options: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False, "log_to_driver": False}
    options["runtime_env"] = {"env_vars": {"PYTHONPATH": python_path()}}
    return RayTaskRunner(address="local", init_kwargs=options)  # else Ray would use one that was started here before


def _is_worker_loss(error: Exception) -> bool:
    """True if a worker ended before its shard was done."""
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, BrokenExecutor | CrashedRun) or library in ("distributed", "ray")


def _refuse_missing(params: RunnerParams) -> None:
    module = {"dask": "prefect_dask", "ray": "prefect_ray"}.get(params.kind)
    if module and find_spec(module) is None:
        raise GraftError(
            f"machine.runner.kind: {params.kind} is not installed; install it: pip install -c constraints.txt "
            f"-e '.[{params.kind}]'"
        )
