"""The number of torch threads is that of a block, and then again the former one."""

import pytest
import torch

from tasks.model.cpu.operations import torch_threads


def fail_on_threads(count: int) -> None:
    with torch_threads(count):
        raise ValueError(f"on {torch.get_num_threads()} threads")


def test_afterwards_there_are_as_many_as_before_also_where_the_block_fails() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match=f"on {before + 1} threads"):
        fail_on_threads(before + 1)
    assert torch.get_num_threads() == before
