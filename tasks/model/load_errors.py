"""Errors of transformers, tokenizers, peft and safetensors over files that are no model, as one-line GraftErrors."""

from collections.abc import Iterator
from contextlib import contextmanager

from tasks.errors import GraftError, TransientError
from tasks.model.foreign_files import REMOTE_CODE
from tasks.model.hub_errors import is_transient
from tasks.model.out_of_memory import is_out_of_memory

PANIC = "PanicException"
"""Name of what libraries in Rust raise; no subclass of Exception, and in no module that can be imported."""


@contextmanager
def translate_errors(problem: str, remedy: str) -> Iterator[None]:
    """Turn what the libraries raise for damaged files into a one-line GraftError."""
    try:
        yield
    except GraftError:
        raise
    except BaseException as error:
        is_panic = type(error).__name__ == PANIC
        if (not isinstance(error, Exception) and not is_panic) or is_out_of_memory(error):
            raise
        reason, remedy = error_reason(error), error_remedy(error) or remedy
        if is_transient(error):
            raise TransientError(f"{problem} ({reason}); try again later, or name a local folder") from error
        raise GraftError(f"{problem} ({reason}); {remedy}") from error


def error_reason(error: BaseException) -> str:
    """The first line of a library's message, with the class of the error where the message is not clear without it."""
    line, *more = str(error).strip().split("\n")
    if line.endswith(":") and more:
        line = f"{line} {more[0].strip()}"
    return line if isinstance(error, OSError | ValueError | RuntimeError) else f"{type(error).__name__}: {line}"


def error_remedy(error: BaseException) -> str | None:
    """The remedy for a base with code or pickles; None for any other error."""
    if "custom code" in str(error) or "trust_remote_code" in str(error):
        return (
            "it comes with Python code, which is not run: choose another, or if you trust it name it in the "
            f"environment, {REMOTE_CODE}=BASE, as in params.yaml"
        )
    if "use_safetensors" in str(error):
        return "weights are read from safetensors only, as pytorch_model.bin is a pickle: convert it, or choose another"
    return None
