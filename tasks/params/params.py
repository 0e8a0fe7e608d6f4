"""All params with their types and ranges. There are no defaults: every value is in `params.yaml`."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from tasks.params.environment import EnvironmentChoice
from tasks.params.fields import Algorithm, VllmDtype
from tasks.params.machine import Machine
from tasks.params.ppo import Ppo
from tasks.params.sections import (
    Bootstrap,
    Evaluation,
    Influence,
    Operators,
    PolicyParams,
    Problems,
    PromotionParams,
    Rewards,
    Rounds,
    SandboxParams,
    Search,
    Section,
)
from tasks.params.update import Update


class Params(Section):
    """All of `params.yaml`."""

    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)]
    environment: EnvironmentChoice
    algorithm: Algorithm
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

    @field_validator("rewards")
    @classmethod
    def _check_weights(cls, rewards: Rewards, others: ValidationInfo) -> Rewards:
        own = rewards.environment if _name_of(others) not in ("workflow", "code") else {}
        weights = [*own.values(), *(term.weight for term in rewards.own)]
        weights += [rewards.model.weight] if rewards.model else []
        weights += [rewards.runs, rewards.efficiency]
        if rewards.correctness + sum(weights) == 0:
            raise ValueError("every weight is 0: give at least one term a weight, correctness: 1.0 for instance")
        return rewards

    @field_validator("operators")
    @classmethod
    def _check_backend(cls, operators: Operators, others: ValidationInfo) -> Operators:
        environment = _name_of(others)
        if operators.backend != "none" and environment not in (None, "workflow"):
            raise ValueError(
                f"backend is {operators.backend}, but only workflows call operators and environment is {environment}: "
                "set operators.backend to none"
            )
        return operators

    @field_validator("influence")
    @classmethod
    def _check_adapter(cls, influence: Influence, others: ValidationInfo) -> Influence:
        policy = others.data.get("policy")
        if policy is not None and policy.lora is None and influence.selection == "positive":
            raise ValueError(
                f"selection is {influence.selection}, but influence is measured over an adapter and policy.lora is "
                "null: set influence.selection to audit, or policy.lora to {rank: 16, alpha: 32, targets: all-linear}"
            )
        return influence

    @field_validator("vllm")
    @classmethod
    def _check_kept_sets(cls, vllm: VllmDtype | None, others: ValidationInfo) -> VllmDtype | None:
        search = others.data.get("search")
        if vllm and search is not None and (search.top_p < 1 or search.top_k):
            raise ValueError(
                f"{vllm}, but vLLM does not return the sets that search.top_p ({search.top_p:g}) and search.top_k "
                f"({search.top_k}) keep, and an update needs them: set these to 1 and 0, or vllm to null"
            )
        return vllm

    @field_validator("update")
    @classmethod
    def _check_correction(cls, update: Update, others: ValidationInfo) -> Update:
        vllm, policy = others.data.get("vllm"), others.data.get("policy")
        if policy is None:
            return update
        in_float32 = policy.base == "scratch" or policy.dtype == "float32"
        if update.sampler_correction != "none" and not vllm and in_float32 and not update.bf16:
            raise ValueError(
                f"sampler_correction ({update.sampler_correction}) does nothing where the policy is sampled by its own "
                "numbers: set it to none, vllm to bfloat16, or update.bf16 to true"
            )
        return update

    @field_validator("update")
    @classmethod
    def _check_sharded(cls, update: Update, others: ValidationInfo) -> Update:
        policy = others.data.get("policy")
        if policy is not None and update.sharded and policy.quantize:
            raise ValueError(
                f"sharded is true, but a base of type {policy.quantize} is not sharded: set sharded to false, or "
                "policy.quantize to null"
            )
        if policy is not None and update.sharded and policy.lora is None:
            raise ValueError(
                "sharded is true, but only a frozen base is sharded and policy.lora is null: set sharded to false, or "
                "policy.lora to {rank: 16, alpha: 32, targets: all-linear}"
            )
        return update

    @field_validator("evaluation")
    @classmethod
    def _check_dev(cls, evaluation: Evaluation, others: ValidationInfo) -> Evaluation:
        problems = others.data.get("problems")
        if problems is not None and evaluation.every and not problems.dev:
            raise ValueError(
                f"every is {evaluation.every}, but there are no problems to compare rounds on: set problems.dev to "
                "100, for instance, or evaluation.every to 0"
            )
        if problems is not None and problems.dev and not evaluation.every:
            raise ValueError(
                f"every is 0, so nothing is measured on the {problems.dev} problems of problems.dev: set "
                "evaluation.every to 1, or problems.dev to 0"
            )
        return evaluation

    @field_validator("ppo")
    @classmethod
    def _check_influence(cls, ppo: Ppo, others: ValidationInfo) -> Ppo:
        influence = others.data.get("influence")
        if others.data.get("algorithm") != "ppo" or influence is None or influence.selection != "positive":
            return ppo
        if influence.similarity == "local":
            raise ValueError(
                "influence.similarity is local, which compares completions by one advantage each, but algorithm ppo "
                "has one for each token: set influence.similarity to dot"
            )
        return ppo

    @field_validator("machine")
    @classmethod
    def _check_server(cls, machine: Machine, others: ValidationInfo) -> Machine:
        if others.data.get("vllm") and machine.vllm.address is None and machine.vllm.command is None:
            raise ValueError(
                f"vllm is {others.data['vllm']}, but there is no server: set machine.vllm.address or "
                "machine.vllm.command to one, or vllm to null"
            )
        return machine


def _name_of(validated: ValidationInfo) -> str | None:
    """The environment's name; None if it is invalid."""
    environment = validated.data.get("environment")
    return environment.name if environment else None


RUN_ONLY = "machine"
"""The section that no stage may read: a change makes no stage stale and does not distinguish runs."""


def dump_stage_params(params: Params) -> dict[str, Any]:
    """Nested values of all params but those of the machine."""
    return params.model_dump(exclude={RUN_ONLY})


def is_run_only(name: str) -> bool:
    """Whether a dotted name is of the machine."""
    return name.partition(".")[0] == RUN_ONLY
