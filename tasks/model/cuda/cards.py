"""The CUDA cards of this machine: which of them a process may use, how many there are, and their memory."""

import gc
import os
import sys
from collections.abc import Sequence

from tasks.errors import GraftError

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_cards() -> list[str]:
    """The cards that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if VISIBLE in os.environ:
        return [card for card in os.environ[VISIBLE].split(",") if card.strip() not in ("", "-1")]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]


def take_card(cards: Sequence[str], number: int) -> None:
    """Let this process, which has used no card so far, see one of them alone: workers take them in turn."""
    if cards:
        os.environ[VISIBLE] = cards[number % len(cards)]


def use_card(number: int) -> str:
    """Let this process compute on the card with this number; returns torch's backend for a group of such processes."""
    import torch

    torch.cuda.set_device(number)
    return "nccl"


def check_count(processes: int) -> None:
    """Raises GraftError where the processes would be more than the GPUs: nccl wants one for each."""
    import torch

    there = torch.cuda.device_count()
    if processes > there:
        raise GraftError(
            f"update.processes: {processes} processes need a GPU each, and here are {there}; set it to {there}"
        )


def free_card() -> None:
    """Give back what torch keeps of a card's memory after an earlier stage of this process: the server takes a share of
    the whole."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()  # models that only cycles hold
        torch.cuda.empty_cache()
