"""Running out of memory, told in the words of the param that sets how much is computed at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from tasks.errors import GraftError

REFUSALS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")
"""What torch says where its error has no type of its own: on a CPU, on mps, in the kernels of other libraries."""


@contextmanager
def memory_named(tokens: int) -> Iterator[None]:
    """Raises GraftError that says which param to lower, where the block runs out of memory.

    `tokens` is `grpo.micro_batch_tokens`.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if not isinstance(error, MemoryError) and not any(words in str(error).lower() for words in REFUSALS):
            raise
        reason = (str(error).strip() or type(error).__name__).split("\n")[0][:200]
        raise GraftError(
            f"grpo.micro_batch_tokens: {tokens} tokens at once are too many for this machine's memory ({reason}); "
            f"set it to {max(tokens // 2, 64)}, or lower, below the longest completion: policy.max_new_tokens"
        ) from error
