"""Phase env: versions and the limits of the card that other phases are compared with."""

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from benchmarks.gpu.phase import Phase, median_seconds

PACKAGES = ("torch", "transformers", "triton", "peft", "trl", "accelerate", "numpy")


def copy_bandwidth(size: int) -> float:
    """Bytes a second, read and written, of a copy of `size` bytes on the card."""
    import torch

    from tasks.model.policy import best_device

    source = torch.empty(size, dtype=torch.uint8, device=best_device()).random_(0, 255)
    target = torch.empty_like(source)
    return 2 * size / median_seconds(lambda: target.copy_(source))


def matmul_rate(size: int) -> float:
    """FLOP a second of a product of square matrices in bfloat16."""
    import torch

    from tasks.model.policy import best_device

    a, b = (torch.randn(size, size, device=best_device()).bfloat16() for _ in range(2))
    return 2 * size**3 / median_seconds(lambda: a @ b)


def limits(phase: Phase) -> tuple[float, float]:
    """`copy_bandwidth` and `matmul_rate`."""
    return copy_bandwidth(2**20 if phase.is_tiny else 2**31), matmul_rate(256 if phase.is_tiny else 8192)


def run(phase: Phase) -> None:
    """Versions, then TB/s, TFLOP/s, and microseconds of a launch."""
    import torch

    from tasks.model.policy import best_device

    phase.figure(python=platform.python_version(), **{name: _version(name) for name in PACKAGES})
    if torch.cuda.is_available():
        card = torch.cuda.get_device_properties(0)
        phase.figure(card=card.name, memory_gib=card.total_memory / 2**30, cuda=str(torch.version.cuda))
    if query := shutil.which("nvidia-smi"):
        command = [query, "--query-gpu=driver_version", "--format=csv,noheader"]
        phase.figure(driver=subprocess.run(command, capture_output=True, text=True).stdout.strip())
    bandwidth, rate = limits(phase)
    phase.figure(copy_tb_s=bandwidth / 1e12, matmul_bf16_tflop_s=rate / 1e12)
    x = torch.zeros(64, device=best_device())

    def launch() -> None:
        for _ in range(1000):
            x.add_(1.0)

    phase.figure(launch_us=median_seconds(launch) * 1e3)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
