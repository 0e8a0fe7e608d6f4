"""Phase env: versions and the limits of the card that other phases are compared with."""

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from benchmarks.gpu.phase import Phase, median_seconds


def limits(phase: Phase) -> tuple[float, float]:
    """Bytes a second, read and written, of a copy on the card, and FLOP a second of a bfloat16 matrix product."""
    import torch

    from tasks.model.device import device_for

    device, size, width = device_for(), 2**20 if phase.is_tiny else 2**31, 256 if phase.is_tiny else 8192
    source = torch.empty(size, dtype=torch.uint8, device=device).random_(0, 255)
    target = torch.empty_like(source)
    a, b = (torch.randn(width, width, device=device).bfloat16() for _ in range(2))
    return 2 * size / median_seconds(lambda: target.copy_(source)), 2 * width**3 / median_seconds(lambda: a @ b)


def run(phase: Phase) -> None:
    """Versions, then TB/s, TFLOP/s and the microseconds of a launch."""
    import torch

    from tasks.model.device import device_for

    packages = ("torch", "transformers", "triton", "peft", "trl", "accelerate")
    phase.figure(python=platform.python_version(), **{name: _version(name) for name in packages})
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        phase.figure(card=card.name, memory_gib=card.total_memory / 2**30, cuda=str(torch.version.cuda))
    if query := shutil.which("nvidia-smi"):
        command = [query, "--query-gpu=driver_version", "--format=csv,noheader"]
        phase.figure(driver=subprocess.run(command, capture_output=True, text=True).stdout.strip())
    bandwidth, rate = limits(phase)
    x = torch.zeros(64, device=device_for())
    launches = median_seconds(lambda: [x.add_(1.0) for _ in range(1000)])
    phase.figure(copy_tb_s=bandwidth / 1e12, matmul_bf16_tflop_s=rate / 1e12, launch_us=launches * 1e3)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
