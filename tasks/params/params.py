"""All params with their types and ranges. There are no defaults: every value is in `params.yaml`."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from tasks.params.environment import EnvironmentChoice
from tasks.params.fields import VllmDtype
from tasks.params.machine import Machine
from tasks.params.sections import (
    Bootstrap,
    Evaluation,
    Influence,
    Operators,
    PolicyParams,
    Ppo,
    Problems,
    PromotionParams,
    Rewards,
    Rounds,
    SandboxParams,
    Search,
    Section,
    Update,
)


class Params(Section):
    """All params of a run: the top level of `params.yaml`."""

    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]
    environment: EnvironmentChoice
    algorithm: Literal["grpo", "ppo"]
    shard_size: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    rounds: Rounds
    problems: Problems
    policy: PolicyParams
    bootstrap: Bootstrap
    search: Search
    vllm: VllmDtype | None
    sandbox: SandboxParams
    operators: Operators
    rewards: Rewards
    influence: Influence
    update: Update
    ppo: Ppo
    evaluation: Evaluation
    promotion: PromotionParams
    machine: Machine


ADAPTER = "{rank: 16, alpha: 32, targets: all-linear}"
"""A value of `policy.lora` for those who have none."""


def contradictions(params: Params) -> Iterator[tuple[str, str]]:
    """Sections whose values do not go with those of another section, each with the problem and its remedy."""
    policy, influence, update = params.policy, params.influence, params.update
    problems, evaluation, vllm = params.problems, params.evaluation, params.vllm
    if vllm and (params.search.top_p < 1 or params.search.top_k):
        yield (
            "vllm",
            f"{vllm}, but vLLM does not return the sets that search.top_p ({params.search.top_p:g}) and search.top_k "
            f"({params.search.top_k}) keep, and an update needs them: set these to 1 and 0, or vllm to null",
        )
    if influence.is_measured and policy.lora is None:
        yield (
            "influence",
            f"selection is {influence.selection}, but influence is measured over an adapter and policy.lora is null: "
            f"set influence.selection to audit, or policy.lora to {ADAPTER}",
        )
    if policy.base == "scratch" and params.bootstrap.epochs == 0:
        yield (
            "bootstrap",
            "epochs is 0, but a model from scratch has learnt nothing before: set epochs to auto, or policy.base to a "
            "pretrained model",
        )
    in_float32 = policy.base == "scratch" or policy.dtype == "float32"
    if update.sampler_correction != "none" and not vllm and in_float32 and not update.bf16:
        yield (
            "update",
            f"sampler_correction ({update.sampler_correction}) does nothing where the policy is sampled by its own "
            "numbers: set it to none, vllm to bfloat16, or update.bf16 to true",
        )
    if update.sharded and policy.quantize:
        yield (
            "update",
            f"sharded is true, but a base of type {policy.quantize} is not sharded: set sharded to false, or "
            "policy.quantize to null",
        )
    if update.sharded and policy.lora is None:
        yield (
            "update",
            "sharded is true, but only a frozen base is sharded and policy.lora is null: set sharded to false, or "
            f"policy.lora to {ADAPTER}",
        )
    if params.algorithm == "ppo" and update.kl_target is not None:
        yield (
            "update",
            f"kl_target ({update.kl_target:g}) adapts the weight of the KL in the loss, but algorithm ppo has the KL "
            "in the rewards: set kl_target to null, or algorithm to grpo",
        )
    if params.algorithm == "ppo" and influence.is_measured and influence.similarity == "local":
        yield (
            "ppo",
            "influence.similarity is local, which compares completions by one advantage each, but algorithm ppo has "
            "one for each token: set influence.similarity to dot",
        )
    for param, name in (("loss", update.loss), ("advantages", update.advantages)):
        if params.algorithm == "ppo" and ":" in name:
            yield (
                "update",
                f"{param} is {name}, but algorithm ppo has its own: set update.{param} to a built-in name, or "
                "algorithm to grpo",
            )
    if ":" in update.loss and influence.is_measured and influence.similarity == "local":
        yield (
            "influence",
            "similarity is local, which compares completions by ∇ log p, but the gradient of the loss "
            f"{update.loss} may be another: set influence.similarity to dot",
        )
    if evaluation.every and not problems.dev:
        yield (
            "evaluation",
            f"every is {evaluation.every}, but there are no problems to compare rounds on: set problems.dev to 100, "
            "for instance, or evaluation.every to 0",
        )
    if problems.dev and not evaluation.every:
        yield (
            "evaluation",
            f"every is 0, so nothing is measured on the {problems.dev} problems of problems.dev: set evaluation.every "
            "to 1, or problems.dev to 0",
        )
    if vllm and params.machine.vllm.address is None and params.machine.vllm.command is None:
        yield (
            "machine",
            f"vllm is {vllm}, but there is no server: set machine.vllm.address or machine.vllm.command to one, or vllm "
            "to null",
        )


RUN_ONLY = "machine"
"""The section that no stage may read: a change makes no stage stale and does not distinguish runs."""


def dump_stage_params(params: Params) -> dict[str, Any]:
    """Nested values of all params but those of the machine."""
    return params.model_dump(exclude={RUN_ONLY})


def is_run_only(name: str) -> bool:
    """Whether a dotted name is of the machine."""
    return name.partition(".")[0] == RUN_ONLY
