"""The whole section `sampler` for the code that asks the server: a stage sees of it no more than `dvc.yaml` lists.

Address, command, parallelism and waiting change no result, so they are not params of a stage. The code that runs a
stage sets them here, as it sets what computes the shards (tasks/core/sharding.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tasks.errors import GraftError
from tasks.params.sampler import SamplerParams

_current: ContextVar[SamplerParams | None] = ContextVar("sampler", default=None)


def server_params() -> SamplerParams:
    """The section set by `use_server`. Raises GraftError where there is none."""
    params = _current.get()
    if params is None:
        raise GraftError("sampler.kind: vllm, but no server is set here; run the stage by graft stage or graft retrain")
    return params


@contextmanager
def use_server(params: SamplerParams) -> Iterator[None]:
    """Let stages in the block find their server by these params."""
    token = _current.set(params)
    try:
        yield
    finally:
        _current.reset(token)
