"""All params with their types and ranges. There are no defaults: every value is in `params.yaml`."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from tasks.params.curriculum import Curriculum
from tasks.params.environment import EnvironmentChoice
from tasks.params.fields import UNMEASURED, Algorithm
from tasks.params.ppo import Ppo
from tasks.params.sampler import SamplerParams
from tasks.params.sections import (
    Bootstrap,
    Evaluation,
    Influence,
    Operators,
    PolicyParams,
    Problems,
    Rewards,
    Rounds,
    RunnerParams,
    SandboxParams,
    Scheduling,
    Search,
    Section,
    Tracking,
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
    curriculum: Curriculum
    search: Search
    sampler: SamplerParams
    sandbox: SandboxParams
    operators: Operators
    rewards: Rewards
    influence: Influence
    update: Update
    ppo: Ppo
    evaluation: Evaluation
    tracking: Tracking
    schedule: Scheduling
    runner: RunnerParams

    @field_validator("rewards")
    @classmethod
    def _check_weights(cls, rewards: Rewards, others: ValidationInfo) -> Rewards:
        own = rewards.environment if _name_of(others) not in ("workflow", "code") else {}
        weights = [*own.values(), *(term.weight for term in rewards.own)]
        weights += [rewards.model.weight] if rewards.model else []
        weights += [rewards.runs, rewards.length, rewards.efficiency]
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
        if policy is not None and policy.lora is None and influence.selection not in UNMEASURED:
            raise ValueError(
                f"selection is {influence.selection}, but influence is measured over an adapter and policy.lora is "
                "null: set influence.selection to none, or policy.lora to {rank: 16, alpha: 32, targets: all-linear}"
            )
        return influence

    @field_validator("operators")
    @classmethod
    def _check_revisions(cls, operators: Operators, others: ValidationInfo) -> Operators:
        search, policy = others.data.get("search"), others.data.get("policy")
        if search is None or policy is None or not search.revisions:
            return operators
        if operators.backend == "none":
            raise ValueError(
                f"search.revisions is {search.revisions}, but there is no model to write them: set operators.backend "
                "to openai or policy, or search.revisions to 0"
            )
        if operators.backend == "policy" and policy.base == "scratch":
            raise ValueError(
                f"search.revisions is {search.revisions}, but a policy from scratch cannot read its prompts: "
                "set operators.backend to openai, policy.base to a model, or search.revisions to 0"
            )
        return operators

    @field_validator("sampler")
    @classmethod
    def _check_kept_sets(cls, sampler: SamplerParams, others: ValidationInfo) -> SamplerParams:
        search = others.data.get("search")
        if sampler.kind == "vllm" and search is not None and (search.top_p < 1 or search.top_k):
            raise ValueError(
                f"kind is vllm, which does not return the sets that search.top_p ({search.top_p:g}) and search.top_k "
                f"({search.top_k}) keep, and an update needs them: set these to 1 and 0, or kind to own"
            )
        return sampler

    @field_validator("update")
    @classmethod
    def _check_correction(cls, update: Update, others: ValidationInfo) -> Update:
        sampler, policy = others.data.get("sampler"), others.data.get("policy")
        if sampler is None or policy is None:
            return update
        in_float32 = policy.base == "scratch" or policy.dtype == "float32"
        if update.sampler_correction != "none" and sampler.kind == "own" and in_float32 and not update.bf16:
            raise ValueError(
                f"sampler_correction ({update.sampler_correction}) does nothing where the policy is sampled by its own "
                "numbers: set it to none, sampler.kind to vllm, or update.bf16 to true"
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
        if others.data.get("algorithm") != "ppo" or influence is None or influence.selection in UNMEASURED:
            return ppo
        if influence.similarity == "local":
            raise ValueError(
                "influence.similarity is local, which compares completions by one advantage each, but algorithm ppo "
                "has one for each token: set influence.similarity to dot or cosine"
            )
        return ppo


def _name_of(validated: ValidationInfo) -> str | None:
    """The environment's name; None if it is invalid."""
    environment = validated.data.get("environment")
    return environment.name if environment else None


RUN_ONLY = (
    *("tracking", "schedule", "runner"),
    *("sampler.address", "sampler.command", "sampler.parallel", "sampler.seconds"),
)
"""Sections and params that no stage may read: a change makes no stage stale and does not distinguish runs."""


def dump_stage_params(params: Params) -> dict[str, Any]:
    """Nested values of all params but RUN_ONLY."""
    values = params.model_dump()
    for name in RUN_ONLY:
        section, _, key = name.partition(".")
        if key:
            del values[section][key]
        else:
            del values[section]
    return values


def is_run_only(name: str) -> bool:
    """Whether a dotted name is in RUN_ONLY, or below a section there."""
    return f"{name}.".startswith(tuple(f"{each}." for each in RUN_ONLY))
