"""The section `machine.vllm` for the code that asks the server: a stage sees no more than `dvc.yaml` lists.

Address and command change no result, so they are not params of a stage. The code that runs a stage sets them here, as
it sets what computes the shards (tasks/core/sharding.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tasks.errors import GraftError
from tasks.params.machine import VllmServer

_current: ContextVar[VllmServer | None] = ContextVar("vllm", default=None)


def server_params() -> VllmServer:
    """The section set by `use_server`. Raises GraftError where there is none."""
    params = _current.get()
    if params is None:
        raise GraftError("vllm: no server is set here; run the stage by graft stage or graft retrain")
    return params


@contextmanager
def use_server(params: VllmServer) -> Iterator[None]:
    """Let stages in the block find their server by these params."""
    token = _current.set(params)
    try:
        yield
    finally:
        _current.reset(token)
