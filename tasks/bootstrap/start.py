"""What a run starts from: a model, or an earlier policy, which is continued."""

from pathlib import Path

from tasks.artifacts import read_json
from tasks.errors import GraftError
from tasks.model.lora import check_continued
from tasks.model.policy import Policy, attach_adapter, load_model, load_policy, load_tokenizer
from tasks.params.sections import Policy as PolicyParams
from tasks.records import Lineage


def start_of(params: PolicyParams) -> tuple[Policy, str | None]:
    """The policy that `policy.base` names, and its version where it is an earlier policy; None for any other model.

    An earlier policy comes as it is, with its adapter and with what it was first made of: its base and its prompt
    stay, in whatever folder it lies. Raises GraftError where the base is no model.
    """
    folder = Path(params.base)
    if (folder / "lineage.json").exists():
        policy = load_policy(folder)
        return policy, read_json(folder / "lineage.json", Lineage).version
    if (folder / "adapter").exists():
        raise GraftError(
            f"policy.base: {params.base!r} has an adapter, but no lineage.json that says what it sits on; restore that "
            "file, or merge the adapter into its model with peft and name that"
        )
    return Policy(load_model(params.base), load_tokenizer(params.base), "", params.base, params.base_sha256), None


def formed(policy: Policy, params: PolicyParams, seed: int) -> Policy:
    """`policy` in the form that `policy.lora` asks for: with a fresh adapter where it has none and should have one.

    Raises GraftError where it has another adapter than that.
    """
    if policy.has_adapter:
        check_continued(policy.model, params.lora, params.base)
    elif params.lora is not None:
        policy.model = attach_adapter(policy.model, params.lora.rank, params.lora.alpha, seed, params.lora.targets)
    return policy
