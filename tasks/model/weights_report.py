"""Checks of loaded weights: each was in the files and fits, none of the files' is left over, all numbers are finite."""

import logging
from typing import Any

NAMED = 3  # weights that an error names

logger = logging.getLogger(__name__)


def check_report(model: Any, report: dict[str, Any]) -> None:
    """Raises ValueError if weights were initialised at random, or some of a module's own were left out.

    `report`: the loading info of transformers, which lists neither tied weights nor those that files of an architecture
    are known to lack or to have besides. Weights that no module has, a vision tower's for instance, are logged.
    """
    missing = sorted(report["missing_keys"])
    mismatched = sorted(str(key[0]) for key in report["mismatched_keys"])
    unused = sorted(report["unexpected_keys"])
    if missing or mismatched:
        hint = f", and have {named(unused)}, of other names" if missing and unused else ""
        problem = f"lack {named(missing)}" if missing else f"have other sizes of {named(mismatched)} than config.json"
        raise ValueError(f"its weights {problem}{hint}")
    if foreign := [key for key in unused if _is_of_leaf(model, key)]:
        raise ValueError(f"its weights have {named(foreign)}, which its config.json leaves out")
    if unused:
        logger.warning(f"policy.base: weights that the model does not have are left out: {named(unused)}")


def check_finite(model: Any) -> None:
    """Raises ValueError if a weight is NaN or infinite."""
    wrong = [name for name, weight in model.named_parameters() if weight.is_floating_point() and not _is_finite(weight)]
    if wrong:
        raise ValueError(f"its weights {named(wrong)} hold numbers that are NaN or infinite")


def named(keys: list[str]) -> str:
    """The first keys, and the number of the others."""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f"{', '.join(keys[:NAMED])}{more}"


def _is_of_leaf(model: Any, key: str) -> bool:
    """Whether a key names a parameter of a module that computes with parameters of its own."""
    path, modules = key.rpartition(".")[0], dict(model.named_modules())
    module = modules.get(path, modules.get(f"{model.base_model_prefix}.{path}"))
    if not path or module is None or any(module.children()):
        return False
    return any(True for _ in module.parameters())


def _is_finite(weight: Any) -> bool:
    import torch

    return bool(torch.isfinite(weight).all())
