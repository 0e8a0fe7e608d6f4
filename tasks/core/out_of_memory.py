"""Turn an out-of-memory error into one that names the param to lower, and refuse a limit that is too low for any."""

from collections.abc import Iterator
from contextlib import contextmanager
from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit

from tasks.errors import GraftError
from tasks.params.fields import MicroBatchTokens

ADDRESS_SPACE = 1 << 30
"""Bytes that the libraries of a stage map. Where they may not, OpenBLAS tries again for ever, and Prefect's server ends
in errors of its own."""

LOWER = 1024
"""Tokens of a micro-batch that are fewer than `auto` gives in general."""

MESSAGES = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc"),
    *("failed to map segment", "could not be mapped", "unable to mmap", "can't start new thread"),
)
"""Out-of-memory messages where the error has no type of its own: of torch on a CPU, of a library that is loaded, of
threads."""


def check_address_space() -> None:
    """Raises GraftError if this process may map less than the libraries do (`ulimit -v`)."""
    limit = getrlimit(RLIMIT_AS)[0]
    if limit != RLIM_INFINITY and limit < ADDRESS_SPACE:
        raise GraftError(
            f"memory: this process may use {limit >> 20} MB of addresses, but its libraries alone take "
            f"{ADDRESS_SPACE >> 20}; raise its limit (ulimit -v)"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error was raised for lack of memory."""
    kinds = (RuntimeError, OSError, ImportError)  # torch.OutOfMemoryError is a RuntimeError
    said = isinstance(error, kinds) and any(message in str(error).lower() for message in MESSAGES)
    return isinstance(error, MemoryError) or said


def memory_line(error: BaseException) -> str:
    """The line for the user about an error for lack of memory, wherever it arose."""
    return (
        f"memory: this process needs more than it has ({_reason(error)}); free some, raise its limit (ulimit -v), "
        "or lower shard_size, update.micro_batch_tokens and influence.memory_budget; nothing was lost"
    )


def _reason(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).split("\n")[0][:200]


@contextmanager
def explain_out_of_memory(tokens: MicroBatchTokens) -> Iterator[None]:
    """Raises GraftError that names `update.micro_batch_tokens`, which is `tokens`, if the block runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        lower = LOWER if tokens == "auto" else max(tokens // 2, 64)
        raise GraftError(
            f"update.micro_batch_tokens: {tokens} tokens at once are too many for this machine's memory "
            f"({_reason(error)}); set it to {lower}, or lower, below the longest completion: policy.max_new_tokens"
        ) from error
