"""Load the start of a run: a model, or an earlier policy that is continued."""

from pathlib import Path

from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.model.lora import check_adapter
from tasks.model.policy import TRAINED_DTYPE, Policy, attach_adapter, load_model, load_policy, load_tokenizer
from tasks.params.sections import Policy as PolicyParams
from tasks.records import Lineage


def load_start(params: PolicyParams) -> tuple[Policy, str | None]:
    """The policy of `policy.base`, and its version if it is an earlier policy; None for any other model.

    An earlier policy keeps its adapter, its base and its prompt, in any folder. Raises GraftError if the base is no
    model, or an earlier policy whose base is not in the type of `policy.quantize` and `policy.dtype`.
    """
    folder = Path(params.base)
    if (folder / "lineage.json").exists():
        lineage = read_json(folder / "lineage.json", Lineage)
        trained_with = {"quantize": lineage.quantize or "null", "dtype": lineage.dtype or "auto"}
        for name, value in trained_with.items():
            if value != (wanted := getattr(params, name) or "null"):
                raise GraftError(
                    f"policy.{name}: {wanted}, but {params.base} was trained with {value}; set policy.{name} to {value}"
                )
        return load_policy(folder), lineage.version
    if (folder / "adapter").exists():
        raise GraftError(
            f"policy.base: {params.base!r} has an adapter, but no lineage.json that names its base; restore that "
            "file, or merge the adapter into its model with peft and name that"
        )
    dtype = None if params.dtype == "auto" else params.dtype
    model = load_model(params.base, params.quantize, dtype if params.lora else TRAINED_DTYPE)
    tokenizer = load_tokenizer(params.base)
    policy = Policy(model, tokenizer, "", params.base, params.base_sha256, quantize=params.quantize, dtype=dtype)
    return policy, None


def attach_lora(policy: Policy, params: PolicyParams, seed: int) -> Policy:
    """`policy` with the adapter of `policy.lora`: a new one if it has none. Raises GraftError if its own differs."""
    if policy.has_adapter:
        check_adapter(policy.model, params.lora, params.base)
    elif params.lora is not None:
        policy.model = attach_adapter(policy.model, params.lora.rank, params.lora.alpha, seed, params.lora.targets)
    return policy
