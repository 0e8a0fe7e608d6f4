"""Turn an out-of-memory error into one that names the param to lower."""

from collections.abc import Iterator
from contextlib import contextmanager

from tasks.errors import GraftError

MESSAGES = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")
"""Out-of-memory messages of torch where the error has no type of its own: on a CPU, on mps, in other libraries."""


@contextmanager
def explain_out_of_memory(tokens: int) -> Iterator[None]:
    """Raises GraftError that names `grpo.micro_batch_tokens`, which is `tokens`, if the block runs out of memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if not isinstance(error, MemoryError) and not any(message in str(error).lower() for message in MESSAGES):
            raise
        reason = (str(error).strip() or type(error).__name__).split("\n")[0][:200]
        raise GraftError(
            f"grpo.micro_batch_tokens: {tokens} tokens at once are too many for this machine's memory ({reason}); "
            f"set it to {max(tokens // 2, 64)}, or lower, below the longest completion: policy.max_new_tokens"
        ) from error
