"""Load the start of a run: a model, or an earlier policy that is continued."""

from pathlib import Path

from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.model.checkpoints.base_adapter import (
    adapter_folder,
    digest_base,
    find_base,
    load_adapted,
    tokenizer_of_adapter,
)
from tasks.model.checkpoints.base_model import load_model, load_tokenizer
from tasks.model.checkpoints.foreign_files import check_finite
from tasks.model.checkpoints.load_errors import translate_errors
from tasks.model.checkpoints.lora import attach_adapter, check_adapter
from tasks.model.checkpoints.version import LINEAGE, verify_policy
from tasks.model.policy import TRAINED_DTYPE, Policy, load_policy
from tasks.params.sections import PolicyParams
from tasks.records.policy import Lineage


def load_start(params: PolicyParams, device: str | None = None) -> tuple[Policy, str | None]:
    """The policy of `policy.base`, and its version if it is an earlier policy; None for any other model.

    An earlier policy keeps its adapter, its base and its prompt, in any folder; an adapter of peft is merged into its
    model. `device`: meta reads no weights. Raises GraftError if the base is no model, a damaged policy, or one whose
    base is not in the type of `policy.quantize` and `policy.dtype`.
    """
    policy, version = _load(params, device)
    _fit_tokenizer(policy, params.base)
    if device is None:
        if version is None and (path := find_base(params.base)):
            policy.base_sha256 = digest_base(path)
        with translate_errors(f"policy.base: {params.base!r} cannot be trained", "restore it from a copy"):
            check_finite(policy.model)
    return policy, version


def _load(params: PolicyParams, device: str | None) -> tuple[Policy, str | None]:
    folder = Path(params.base)
    if (folder / LINEAGE).exists():
        lineage = read_json(folder / LINEAGE, Lineage)
        trained_with = {"quantize": lineage.quantize or "null", "dtype": lineage.dtype or "auto"}
        for name, value in trained_with.items():
            if value != (wanted := getattr(params, name) or "null"):
                raise GraftError(
                    f"policy.{name}: {wanted}, but {params.base} was trained with {value}; set policy.{name} to {value}"
                )
        if device is None:
            verify_policy(folder)
        return load_policy(folder, device=device), lineage.version
    if (folder / "adapter").exists():
        raise GraftError(
            f"policy.base: {params.base!r} has an adapter, but no lineage.json that names its base; restore that "
            "file, or name the adapter's own folder"
        )
    dtype = None if params.dtype == "auto" else params.dtype
    weights = dtype if params.lora else TRAINED_DTYPE
    if adapter := adapter_folder(params.base):
        if params.quantize:
            raise GraftError(
                f"policy.quantize: {params.quantize}, but {params.base} is an adapter, which is merged into its model; "
                "set policy.quantize to null, or merge it with peft and name that"
            )
        model = load_adapted(adapter, weights, device)
        tokenizer = load_tokenizer(tokenizer_of_adapter(adapter), params.base)
        return Policy(model, tokenizer, "", params.base, own_weights=True, dtype=dtype), None
    model, tokenizer = load_model(params.base, params.quantize, weights, device), load_tokenizer(params.base)
    return Policy(model, tokenizer, "", params.base, quantize=params.quantize, dtype=dtype), None


def _fit_tokenizer(policy: Policy, base: str) -> None:
    """Pad with the end token where the padding token has no embedding: padding is masked, so any token will do.

    Raises GraftError if the end token has none.
    """
    tokenizer, rows = policy.tokenizer, policy.vocabulary
    if tokenizer.eos_token_id >= rows:
        raise GraftError(
            f"policy.base: the end-of-text token of {base!r}, {tokenizer.eos_token!r}, is token "
            f"{tokenizer.eos_token_id} of a model with {rows} embeddings; resize its embeddings, or correct eos_token"
        )
    if tokenizer.pad_token_id >= rows:
        tokenizer.pad_token = tokenizer.eos_token


def attach_lora(policy: Policy, params: PolicyParams, seed: int) -> Policy:
    """`policy` with the adapter of `policy.lora`: a new one if it has none. Raises GraftError if its own differs."""
    if policy.has_adapter:
        check_adapter(policy.model, params.lora, params.base)
    elif params.lora is not None:
        policy.model = attach_adapter(policy.model, params.lora.rank, params.lora.alpha, seed, params.lora.targets)
    return policy
