"""Validation of recorded completions against the policy that learns from them.

The first one that does not match stops the stage: it is of another policy, or the file was damaged.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import contains

from tasks.artifacts import read_json
from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, completion_text, encode_completion
from tasks.records import Lineage, Split
from tasks.trajectories import Member, Reward, RewardedTrajectory, read_numbered_rewarded

MAX_LOGPROB = 1e-3
"""A log-probability may be above 0 by no more: rounding."""


def read_valid_trajectories(
    policy: Policy,
    environment: Environment,
    layout: Layout,
    round: int,
    splits: Sequence[Split],
) -> Iterator[RewardedTrajectory]:
    """The round's trajectories of these splits with their rewards, one at a time.

    `policy` has the vocabulary and the context of the one that the round starts from. Raises GraftError that names file
    and line where a completion does not fit, or where another policy wrote it.
    """
    path, version = layout.trajectories(round), read_json(layout.policy(round - 1) / "lineage.json", Lineage).version
    remedy = f"run again: graft stage search@{round} collect@{round} reward@{round}"
    for line, rewarded in read_numbered_rewarded(path):
        trajectory = rewarded.trajectory
        if trajectory.split not in splits:
            continue
        if trajectory.policy_version != version:  # its log-probabilities are those of another policy
            raise GraftError(
                f"{path}:{line}: policy_version: {trajectory.policy_version!r} wrote this, but round {round} "
                f"starts from {version!r}; {remedy}"
            )
        _check_valid(policy, environment, f"{path}:{line}", rewarded)
        yield rewarded


def _check_valid(policy: Policy, environment: Environment, where: str, rewarded: RewardedTrajectory) -> None:
    if reasons := invalid_completions(policy, environment, rewarded):
        member, why = next(iter(reasons.items()))
        raise GraftError(
            f"{where}: completion {member} of problem {rewarded.trajectory.problem_id!r} {why}; run the search and "
            "collect stages again"
        )


def invalid_completions(policy: Policy, environment: Environment, rewarded: RewardedTrajectory) -> dict[int, str]:
    """Members that the policy cannot learn from, with the reason."""
    prompt, pairs = rewarded.trajectory.prompt_tokens, zip(rewarded.trajectory.members, rewarded.rewards, strict=True)
    reasons = (_why(policy, environment, prompt, member, reward) for member, reward in pairs)
    return {place: why for place, why in enumerate(reasons) if why}


def _why(policy: Policy, environment: Environment, prompt: list[int], member: Member, reward: Reward) -> str | None:
    recorded, logprobs, kept = member.tokens, member.logprobs, member.kept
    if not prompt or not (recorded or member.code.strip()):
        return "is empty" if prompt else "has an empty prompt"
    if logprobs and len(logprobs) != len(recorded):
        return f"has {len(logprobs)} log-probabilities for {len(recorded)} tokens"
    if kept and (len(kept) != len(recorded) or not all(map(contains, kept, recorded))):
        return "has kept sets that are not those of its tokens"
    if wrong := [value for value in logprobs if not (math.isfinite(value) and value <= MAX_LOGPROB)]:
        return f"has the log-probability {wrong[0]}, which is none"
    tokens, config = recorded or encode_completion(policy, member.code), policy.model.config
    vocabulary: int = config.vocab_size
    if strange := [token for token in chain(prompt, tokens, *kept) if not 0 <= token < vocabulary]:
        return f"holds token {strange[0]}, which is not in the policy's vocabulary of {vocabulary}"
    context = getattr(config, "max_position_embeddings", None)
    if context and len(prompt) + len(tokens) > context:
        return f"has {len(prompt) + len(tokens)} tokens with its prompt, but policy.base holds {context}"
    if recorded and reward.reward is not None and not _is_of(policy, environment, recorded, member.code):
        return "has tokens that are not its code in the policy's tokenizer, so another one made them"
    return None


def _is_of(policy: Policy, environment: Environment, tokens: list[int], code: str) -> bool:
    """Whether tokens are those of a recorded code or text, written by the policy or encoded from another's text.

    Some tokenizers do not decode to what they encoded (blanks, rare characters), hence the second test.
    """
    made = environment.text(completion_text(policy, tokens))
    return made in (code, environment.text(code)) or tokens == encode_completion(policy, code)
