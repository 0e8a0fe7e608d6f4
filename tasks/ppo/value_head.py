"""The value head: a linear module from the last hidden state to one number, zero at the start of a run.

It is `value_head.safetensors` in the folder of a round's policy, next to the weights that it was trained with. Nothing
that a policy writes depends on it: sampling, evaluation and export leave it out.
"""

from pathlib import Path
from typing import Any

import torch

from tasks.artifacts import write_bytes
from tasks.errors import GraftError
from tasks.model.hf_model import unwrap_model
from tasks.model.policy import Policy


def zero_head(policy: Policy) -> Any:
    """A head whose values are 0, in float32, or float64 for a float64 model."""
    model = unwrap_model(policy.model)
    dtype = torch.promote_types(next(model.parameters()).dtype, torch.float32)
    size = model.get_output_embeddings().weight.shape[1]
    head: Any = torch.nn.Linear(size, 1, dtype=dtype, device="meta").to_empty(device=policy.device)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
    return head


def read_head(path: Path, policy: Policy) -> Any:
    """The head of this file; a zero one where there is none. Raises GraftError where it does not fit the policy."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    head = zero_head(policy)
    if not path.exists():
        return head
    try:
        head.load_state_dict(load_file(path))
    except (SafetensorError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise GraftError(
            f"{path}: no value head of this policy ({reason}); run the update stage of that round again"
        ) from error
    return head


def write_head(path: Path, head: Any) -> None:
    """Write the head atomically; the same weights give the same bytes."""
    from safetensors.torch import save

    write_bytes(path, save({name: part.detach().cpu().contiguous() for name, part in head.state_dict().items()}))
