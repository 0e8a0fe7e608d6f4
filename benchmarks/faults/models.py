"""Broken model folders, read as `graft retrain` reads a base: those that hang, and those without an error in one line.

python -m benchmarks.faults.models
"""

import json
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tasks.bootstrap.base_check import check_base
from tasks.errors import GraftError
from tasks.params.file import load_params
from tests.support.broken_models import BROKEN, gguf_of_many_tokens, save_model

SECONDS = 60.0
"""A check that takes longer hangs; the limits are of CPU time, and the machine may be busy."""

PARAMS = load_params(Path(__file__).parents[2] / "params.yaml").policy


def measure() -> dict[str, float]:
    """`model_hangs` and `model_faults` over BROKEN, a GGUF file and the valid folder, which has to be accepted."""
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(2) as threads:
        valid = Path(made, "valid")
        save_model(valid)
        cases = [(str(valid), ""), (str(gguf_of_many_tokens(Path(made))), "5,000,000 tokens")]
        for number, (change, message) in enumerate(BROKEN.values()):
            folder = shutil.copytree(valid, Path(made, str(number), "model"))
            change(folder)
            cases.append((str(folder), message))
        outcomes = list(threads.map(lambda case: _check(*case), cases))
    return {
        "models": len(outcomes),
        "model_hangs": sum(seconds > SECONDS for _, seconds in outcomes),
        "model_faults": sum(not right for right, _ in outcomes),
        "model_seconds": max(seconds for _, seconds in outcomes),
    }


def _check(base: str, message: str) -> tuple[bool, float]:
    """Whether the error is as wanted, "" for none, and the seconds."""
    began = time.monotonic()
    try:
        check_base(PARAMS.model_copy(update={"base": base}))
    except GraftError as error:
        line = str(error)
        right = bool(message) and re.search(message, line) is not None and "\n" not in line and ";" in line
        if not right:
            print(f"{base}: {line}")
    else:
        right = not message
        if not right:
            print(f"{base}: accepted, wanted: {message}")
    return right, time.monotonic() - began


if __name__ == "__main__":
    print(json.dumps(measure()))
