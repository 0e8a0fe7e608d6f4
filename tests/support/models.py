"""Models that tests compare and change: logits of fixed tokens, a base folder, a little training."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from tasks.model.policy import Policy


def logits(model: Any) -> "torch.Tensor":
    """In float32, of five fixed tokens, computed on the CPU."""
    import torch

    if model.device.type != "cpu":
        model = deepcopy(model).cpu()
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=torch.tensor([[5, 17, 250, 3, 99]])).logits
    return found.float()


def same_logits(a: Any, b: Any) -> bool:
    return float((logits(a) - logits(b)).abs().max()) <= 1e-6


def perturb(policy: "Policy") -> "Policy":
    """Change all weights that an update would change."""
    import torch

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator).to(parameter.device))
    return policy


def save_base(make_policy: "Callable[..., Policy]", folder: Path, kind: str = "qwen2", dtype: str = "float32") -> Path:
    """A plain model folder with a tokenizer, without an adapter or a lineage."""
    policy = make_policy(kind, full=True, dtype=dtype)
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return folder
