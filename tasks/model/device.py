"""The device of a model: `machine.device`, or for `auto` by what is there and the model's size.

What each kind of device does in its own way is in the folders cpu and cuda; `for_device` alone chooses between them.

No stage sees the section `machine`; the code that runs a stage sets its device (`use_device`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

from tasks.errors import GraftError
from tasks.params.fields import Device

SMALL = 5_000_000
"""Parameters of a model that stays on the CPU with `auto`: one of 1.9 M gains little from a card
(docs/results/2026-11-27-gpu.md), and on the CPU its run does not depend on whether there is one."""

FLOAT = 4
"""Bytes of a parameter in the files of a model from scratch."""

Variant = TypeVar("Variant")

_setting: ContextVar[Device] = ContextVar("device", default="auto")


def choose_device(setting: Device, card: bool, parameters: int | None = None) -> Device:
    """`cuda` or `cpu`. `card`: whether there is one; `parameters`: of the model, None: it is not small."""
    if setting != "auto":
        return setting
    return "cuda" if card and (parameters is None or parameters >= SMALL) else "cpu"


def device_for(parameters: int | None = None) -> Device:
    """The device of a model with this number of parameters; None: it is not small."""
    import torch

    return choose_device(_setting.get(), torch.cuda.is_available(), parameters)


def device_of(base: str) -> Device:
    """The device of the model of a folder, a GGUF file or a Hugging Face id; only a folder's may be small."""
    files = Path(base).glob("*.safetensors") if os.path.isdir(base) else ()
    return device_for(sum(file.stat().st_size for file in files) // FLOAT or None)


def for_device(device: Any, cpu: Variant, cuda: Variant) -> Variant:
    """What is for this kind of device."""
    return cuda if str(device).startswith("cuda") else cpu


def device_name(device: Any) -> str:
    """The card's name, else the device's type: a name for what moves the last digits of results."""
    import torch

    device = torch.device(device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def memory_note(device: Any) -> str:
    """The memory of a card that is in use, for the end of a line; nothing for a CPU."""
    import torch
    from rich.filesize import decimal

    if torch.device(device).type != "cuda":
        return ""
    free, total = torch.cuda.mem_get_info(device)
    return f", {decimal(total - free)} of {decimal(total)} on the card"


def check_device(setting: Device) -> None:
    """Raises GraftError where a card is asked for and torch finds none."""
    if setting != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise GraftError(
            "machine.device: cuda, but torch finds no card; graft doctor names the reason, or set it to auto"
        )


@contextmanager
def use_device(setting: Device) -> Iterator[None]:
    """Let models that are loaded in the block be on this device. Raises GraftError where there is none."""
    check_device(setting)
    token = _setting.set(setting)
    try:
        yield
    finally:
        _setting.reset(token)
