"""Check of the graphics card for `graft doctor`: its driver, the CUDA of torch, free memory, and a product on it.

torch is imported only where it can use a card: that takes seconds.
"""

import ctypes
import re
import runpy
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from flows.machine import Finding
from tasks.environments.prompts import SCRATCH
from tasks.errors import GraftError
from tasks.params.params import Params

LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
"""Major version of CUDA → the first branch of drivers that runs all its minor versions (NVIDIA, CUDA Compatibility,
Minor Version Compatibility, table 1)."""

ON_CPU = "the CPU is used, which is slower"
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def check_card(params: Params, library: str = "libcuda.so.1") -> Finding:
    """The cards that torch will use, or why it uses the CPU."""
    if params.machine.device == "cpu":
        return Finding("card", "not used: machine.device is cpu")
    torch = torch_build()
    if torch["hip"]:  # AMD's, whose driver is a part of Linux
        return check_products(params, f"torch {torch['__version__']}")
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return Finding("card", "none: the CPU is used")
    number, words = ctypes.c_int(), ctypes.c_char_p()
    driver.cuDriverGetVersion(ctypes.byref(number))
    error = driver.cuInit(0)
    if error == NO_DEVICE:
        return Finding("card", "none: the CPU is used")
    name = describe_driver(number.value, Path("/proc/driver/nvidia/version"))
    if error:
        driver.cuGetErrorString(error, ctypes.byref(words))
        remedy = f"{ON_CPU}; nvidia-smi shows more, and a restart helps after an upgrade"
        return Finding("card", f"{name}: {(words.value or b'').decode()} ({error})", remedy, "the card", fatal=False)
    version, built = torch["__version__"], torch["cuda"]
    too_old = check_driver(name, number.value, version, built)
    return too_old or check_products(params, f"{name}, torch {version} (CUDA {built})")


def torch_build() -> dict[str, Any]:
    """`__version__`, `cuda` and `hip` of the installed torch, which is not imported."""
    spec = find_spec("torch")
    built = runpy.run_path(str(Path(spec.origin).with_name("version.py"))) if spec and spec.origin else {}
    return {"__version__": "not installed", "cuda": None, "hip": None} | built


def describe_driver(cuda: int, file: Path) -> str:
    """`driver 580.65.06 (CUDA 13.0)`, of cuDriverGetVersion's number and the kernel module's file, if it is there."""
    version = re.search(r"\d+(\.\d+)+", file.read_text().split("\n")[0]) if file.is_file() else None
    return f"driver {f'{version[0]} ' if version else ''}(CUDA {cuda // 1000}.{cuda % 1000 // 10})"


def check_driver(name: str, cuda: int, torch: str, built: str | None) -> Finding | None:
    """None if the driver runs the CUDA that torch is built with. `cuda`: 12040 is 12.4, as cuDriverGetVersion has it.

    A driver runs every minor version of its own major version of CUDA, and all earlier ones.
    """
    if built is None:
        remedy = f"{ON_CPU}; install a torch that is built with CUDA: pytorch.org/get-started"
        return Finding("card", f"{name}, but torch {torch} is for CPUs alone", remedy, "the card", fatal=False)
    major = int(built.partition(".")[0])
    if cuda // 1000 >= major:
        return None
    least = LEAST_DRIVER.get(major)
    remedy = f"{ON_CPU}; install {f'driver {least} or later' if least else 'a newer driver'}"
    if cuda // 1000 in LEAST_DRIVER:
        remedy += f", or a torch built with CUDA {cuda // 1000}: pytorch.org/get-started"
    return Finding("card", f"{name} is too old for torch {torch} (CUDA {built})", remedy, "the card", fatal=False)


def check_products(params: Params, name: str) -> Finding:
    """Multiply on each card. A card that torch has no code for is used none the less, and every stage fails."""
    import torch

    from tasks.model.cuda.cards import check_count
    from tasks.model.device import choose_device, for_device

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if not torch.cuda.is_available():
                why = " ".join(str(warning.message).strip() for warning in caught[:1]) or "it does not say why"
                return Finding("card", f"{name}; torch cannot use it: {why}", ON_CPU, "the card", fatal=False)
            cards = [_describe_card(index) for index in range(torch.cuda.device_count())]
            size = 0 if params.policy.base == SCRATCH else None  # a small model is on the CPU where that may choose
            device = choose_device(params.machine.device, card=True, parameters=size)
            for_device(device, cpu=lambda _: None, cuda=check_count)(params.update.processes)
        except RuntimeError as error:
            remedy = "free it, install a torch that has code for it, or hide it: export CUDA_VISIBLE_DEVICES="
            first, *_ = str(error).strip().split("\n")
            return Finding("card", f"{name}: {first}", remedy, "a run")
        except GraftError as error:
            return Finding.of_error("card", error)
    result = f"{', '.join(cards)}; {name}"
    if params.update.bf16 and not torch.cuda.is_bf16_supported(including_emulation=False):
        return Finding("card", result, "it is emulated, which is slower: -S update.bf16=false", "bfloat16", fatal=False)
    return Finding("card", result)


def _describe_card(index: int) -> str:
    """Name and memory of a card that can multiply. Raises RuntimeError."""
    import torch

    ones = torch.ones(8, 8, device=f"cuda:{index}")
    (ones @ ones).sum().item()  # waits for the card
    free, total = torch.cuda.mem_get_info(index)
    return f"{torch.cuda.get_device_name(index)} with {decimal(free)} of {decimal(total)} free"
