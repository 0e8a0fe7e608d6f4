"""Names of params in older files: the present ones, and what happens now instead of a param that was removed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

RENAMED = {
    # sections
    "grpo": "update",
    "tracking": "machine.tracking",
    "schedule": "machine.schedule",
    "runner": "machine.runner",
    # params
    "shard": "shard_size",
    "curriculum.problems": "search.problems",
    "influence.mix": "influence.train_on_validation",
    "sampler.dtype": "vllm",
    "sampler.address": "machine.vllm.address",
    "sampler.command": "machine.vllm.command",
}
"""Old → present dotted name, of a section for all that is below it. The longest one counts."""

CHESS, CIVIL = "recipes.chess:RookWorld", "recipes.civil:Civil"


class OwnParam(NamedTuple):
    """A param that environments have as their own, by what name, and what it is there where nothing is set."""

    environments: tuple[str, ...]
    name: str | None = None  # None: the last part of the old name
    default: Any = None


OF_ENVIRONMENT = {
    "rookworld": OwnParam((CHESS,)),
    "civil": OwnParam((CIVIL,)),
    "rewards.strict": OwnParam(("answer",), default=False),
    "rewards.toxicity_floor": OwnParam((CIVIL,), default=0.3),
    "rewards.partial_tests": OwnParam(("code",), default=False),
    "problems.operations": OwnParam(("workflow",), default=2),
    "problems.phrasings": OwnParam(("workflow",), default=2),
    "problems.unseen_template_share": OwnParam(("workflow", CHESS, CIVIL), default=0.25),
    "problems.unseen": OwnParam(("workflow", CHESS, CIVIL), "unseen_template_share", 0.25),
    "coldstart": OwnParam(("workflow",), "enumerated_operations"),
    "coldstart.operations": OwnParam(("workflow",), "enumerated_operations", 4),
    "bootstrap.demonstrations": OwnParam((CHESS, CIVIL), default=12000),
    "bootstrap.malformed_share": OwnParam(("answer",), default=0.3),
    "bootstrap.spoilt": OwnParam(("answer",), "malformed_share", 0.3),
}
"""Old name of a param or section → the param of environments that it has become."""

_DIGESTED = "the sources of a stage have the digests of your files"
_SETTLED = "nothing that was measured speaks for it"

REMOVED = {
    **dict.fromkeys(
        ("environment_sha256", "problems.evaluator_sha256", "policy.base_sha256", "policy.prompt.file_sha256"),
        _DIGESTED,
    ),
    **dict.fromkeys(
        ("rewards.own_sha256", "rewards.model_sha256", "influence.trajectories_sha256", "civil.prompts_sha256"),
        _DIGESTED,
    ),
    "coldstart.em_passes": "programs are enumerated without a learnt prior",
    **dict.fromkeys(("curriculum.order", "curriculum.threshold"), _SETTLED),
    **dict.fromkeys(("curriculum.discount", "curriculum.groups"), "a round draws its problems at random"),
    "sampler": "the param vllm names the type in which vLLM samples; machine.vllm has the server",
    "sampler.kind": "vLLM samples where the param vllm names a type, in float32, bfloat16 or float16",
    "sampler.parallel": "256 completions are asked for at a time",
    "sampler.seconds": "a server has 600 s for an answer",
    **dict.fromkeys(
        ("rewards.operations", "rewards.model_calls", "rewards.cost"), "rewards.efficiency counts them all"
    ),
    "rewards.agreement": "without siblings a right answer always counts by its agreement with others",
    **dict.fromkeys(("influence.minimum_kept", "influence.leave_group_out", "influence.precondition"), _SETTLED),
    "influence.trajectories": "influence is measured on completions of the round itself",
    "influence.control": "influence.fdr_control says whether what positive drops is controlled",
    "influence.fraction": "influence.share is what top, bottom and random keep",
    "influence.top_k": "influence.sampling and influence.k take those of the highest or lowest rewards",
    "influence.sequential_test": "influence.selection audit asks first whether rewards err",
    "influence.exclude_self": "influence.own_vote says whether a sample counts for itself",
    "influence.positions": "influence.prompts says whether gradients are of the prompts' positions, too",
    "update.beta_warmup_steps": "beta has no warm-up",
    "update.kl_horizon": "update.kl_target is of a completion, not of a token; beta changes by 2 % a step at most",
    "update.delta": "the ratio has no bound for negative advantages; update.negative_weight scales these",
    "update.on_invalid_completion": "a trajectory of another policy than the round's stops the stage",
    "ppo.value_clip": "values have no bound",
    "ppo.detach_value": "the value loss trains the policy too",
    "ppo.whiten": "advantages are always whitened",
    "ppo.whiten_rewards": "rewards are as they are",
    "ppo.kl_in_reward": "the KL of a token is estimated by k1",
    "ppo.missing_eos": "update.truncated says what a cut completion counts",
    "search.revisions": "an operator of a workflow may ask a model, the search asks the policy alone",
    "search.seconds": "the tree search has no time limit",
    "search.stop_at": "a tree search ends with its simulations, or where all completions are right",
    "search.wave": "a tree starts 4 rollouts at a time",
    "search.wave_size": "a tree starts 4 rollouts at a time",
    "operators.seconds": "a server has 60 s for a reply",
    "operators.retries": "a prompt without a reply is sent 4 times more",
    "operators.parallel": "8 prompts are sent at a time",
    "bootstrap.batch": "a step has 16 workflows",
    "evaluation.resamples": "intervals are of 10000 resamples",
    "evaluation.confidence": "intervals and the promotion gate are at 95 %",
    "rewards.seconds": "a function has 10 s for a call",
    "rewards.failed_limit": "a stage stops where more than a fifth of the rewards are unknown",
    "rewards.length": "a function in rewards.own can count tokens",
    "curriculum.exploration": "no problem is skipped for having no signal, which was measured to be no faster",
    "machine.tracking.seconds": "MLflow has 60 s",
    "machine.schedule.overlap": "a scheduled run that finds another one at work is skipped",
    "machine.schedule.delay": "a stage is tried again after 10 s, then after twice as long each time",
}
"""Dotted name → what happens instead; RENAMED has been applied. The longest one counts."""

RENAMED_VALUES = {
    ("machine.runner.kind", "here"): "sequential",
    ("influence.loss", "seqloss_lastadv"): "seqloss-lastadv",
    ("influence.loss", "seqloss_reward"): "seqloss-reward",
    ("environment.name", "rookworld"): CHESS,
    ("environment.name", "civil"): CIVIL,
    ("problems.source", "events"): "environment",
    ("problems.source", "generated"): "environment",
    ("problems.source", "functions"): "environment",
}
"""(Present name, old value) → present value."""

IMPLIED = {
    ("problems.source", "generated"): ("environment.stories", "fixed"),
    ("problems.source", "functions"): ("environment.name", "code"),
}
"""(Present name, old value) → another param with the value that this one had implied."""


def present_name(key: str) -> str:
    """The present name of a param or section; the key itself where it has not changed."""
    for head, rest in _heads(key):
        if head in REMOVED:
            return key
        if head in RENAMED:
            return f"{RENAMED[head]}{rest}"
        if own := OF_ENVIRONMENT.get(head):
            leaf = own.name or key.rpartition(".")[2]
            return f"environment.{leaf}" if own.name or "." in key else "environment"
    return key


def own_param(key: str) -> OwnParam | None:
    """What an old param has become, where it is a param of environments now."""
    return next(
        (OF_ENVIRONMENT[head] for head, _ in _heads(key) if head in OF_ENVIRONMENT and head not in REMOVED), None
    )


def removal_of(key: str) -> str | None:
    """What happens instead of a param that was removed, by its present name; None for any other."""
    return next((REMOVED[head] for head, _ in _heads(key) if head in REMOVED), None)


def _heads(key: str) -> Iterator[tuple[str, str]]:
    """The key and each section that it is in, with what follows; the longest first."""
    parts = key.split(".")
    for count in range(len(parts), 0, -1):
        head = ".".join(parts[:count])
        yield head, key[len(head) :]
