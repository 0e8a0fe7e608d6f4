"""Errors of transformers, tokenizers, peft and safetensors over files that are no model, as one-line GraftErrors.

Those of a download may be transient: timeouts, 5xx responses and lost connections, as opposed to a wrong name.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.core.out_of_memory import is_out_of_memory
from tasks.errors import GraftError, TransientError
from tasks.model.checkpoints.foreign_files import REMOTE_CODE

PANIC = "PanicException"
"""Name of what libraries in Rust raise; no subclass of Exception, and in no module that can be imported."""

TRANSIENT_STATUS = (408, 425, 429)


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


def is_transient(error: BaseException) -> bool:
    """Whether the error or one of its causes is a lost connection, a timeout or a response that asks to retry."""
    chain = _causes(error)
    if any(type(cause).__name__ == "OfflineModeIsEnabled" for cause in chain):
        return False  # HF_HUB_OFFLINE is set
    responses = [response for cause in chain if (response := getattr(cause, "response", None)) is not None]
    if responses:
        return responses[0].status_code in TRANSIENT_STATUS or responses[0].status_code >= 500
    return any(isinstance(cause, (ConnectionError, TimeoutError)) or _is_transport(cause) for cause in chain)


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _is_transport(error: BaseException) -> bool:
    """By name: the hub's library has its own httpx."""
    return any(kind.__name__ == "TransportError" for kind in type(error).__mro__)


@contextmanager
def translate_disk_errors() -> Iterator[None]:
    """Turn safetensors' error for a full disk into the OSError that everything else raises."""
    try:
        yield
    except Exception as error:
        is_of_disk = type(error).__name__ == "SafetensorError"  # by name: nothing here imports safetensors
        number = re.search(r"\(os error (\d+)\)", str(error)) if is_of_disk else None
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
