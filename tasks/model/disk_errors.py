"""Errors of a full disk as safetensors raises them."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def translate_disk_errors() -> Iterator[None]:
    """Turn safetensors' error for a full disk into the OSError that everything else raises."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
