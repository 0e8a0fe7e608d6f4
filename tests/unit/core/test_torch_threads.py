"""The number of torch threads is that of a block, and then again the former one."""

import pytest
import torch

from tasks.core.torch_threads import torch_threads


def test_afterwards_there_are_as_many_as_before_also_where_the_block_fails() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="inside"), torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        raise ValueError("inside")
    assert torch.get_num_threads() == before
