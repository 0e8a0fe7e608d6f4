"""A sharded base: each process holds a part of the weights of every decoder layer, and gathers a layer to compute it.

torch's `fully_shard` (FSDP2) does it. What is outside of the layers (embedding, last norm, head) is whole in each
process, and so is what is trained: an adapter is attached afterwards, and a value head is no part of the model. Their
gradients are added up as without shards (collectives.py). A layer is gathered by all processes at once, so all of them
have to run the model equally often (`in_step`).
"""

from typing import Any

import torch
from torch import Tensor

from tasks.model.distributed.collectives import rank, world_size
from tasks.model.hf_model import decoder_layers

PARAM = "update.sharded"


def shard_base(model: Any, device: str, dtype: Any) -> None:
    """Freeze and shard a transformers model in place, onto `device`; floating weights are in `dtype`, None: their own.

    Of weights that are mapped from a file only this process's part is read, and copied only to another device or type.
    Raises GraftError if it has no decoder layers.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model.requires_grad_(False)
    layers, decoder = decoder_layers(model, PARAM), model.get_decoder()
    inside = {id(weight) for layer in layers for weight in layer.parameters()}
    whole = {weight for weight in model.parameters() if id(weight) not in inside}
    for weight in whole:
        weight.data = weight.data.to(device=device, dtype=dtype)
    for buffer in model.buffers():
        buffer.data = buffer.data.to(device)
    mesh = init_device_mesh(device, (world_size(),))
    for layer in layers:
        weights = {name: weight.data for name, weight in layer.named_parameters()}
        for module in layer.modules():
            for name, weight in module.named_parameters(recurse=False):
                empty = torch.empty_like(weight, device="meta", dtype=dtype)
                setattr(module, name, torch.nn.Parameter(empty, requires_grad=False))
        fully_shard(layer, mesh=mesh, reshard_after_forward=True)
        parts = {name: _own_part(weight, mesh, device, dtype) for name, weight in weights.items()}
        layer.load_state_dict(parts, strict=False, assign=True)
    fully_shard(decoder, mesh=mesh, ignored_params=whole)


def _own_part(weight: Tensor, mesh: Any, device: str, dtype: Any) -> Any:
    """This process's rows of a weight: a view where neither device nor type change."""
    from torch.distributed.tensor import DTensor, Shard

    rows = torch.chunk(weight, world_size())
    part = rows[rank()] if rank() < len(rows) else weight[:0]
    return DTensor.from_local(
        part.to(device=device, dtype=dtype),
        mesh,
        [Shard(0)],
        run_check=False,
        shape=weight.shape,
        stride=weight.stride(),
    )
