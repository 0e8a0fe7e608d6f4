"""Params of the stages that sample and score a policy, restricted as in dvc.yaml."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tasks.params.file import load_params, restrict
from tasks.params.params import Params

SHIPPED = load_params(Path(__file__).parents[2] / "params.yaml")
KEYS = ["seed", "environment", "policy.max_new_tokens", "sandbox", "operators"]
KEYS += ["vllm"]


def evaluation_params(keys: Iterable[str], **changes: dict[str, Any]) -> Params:
    """The shipped params with 96 new tokens and these changes of sections, restricted to KEYS and `keys`."""
    changes = {"policy": {"max_new_tokens": 96}, **changes}
    sections = {name: getattr(SHIPPED, name).model_copy(update=change) for name, change in changes.items()}
    return restrict(SHIPPED.model_copy(update=sections), [*KEYS, *keys])
