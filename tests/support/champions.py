"""Champions and challengers, as runs leave them."""

from pathlib import Path

from tasks.artifacts import read_json, write_json, write_text
from tasks.layout import Layout
from tasks.model.checkpoints.version import digest_policy
from tasks.promote.challenger import ask_approval, keep_challenger
from tasks.promote.champion import Challenger, champion_version, promote_policy
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.records.promotion import Champion
from tasks.statistics.problem_profile import profile_of
from tests.support.records import make_promotion

NOW = "2026-11-22T18:00:00Z"
PROFILE = profile_of([Problem(problem_id="p", question="1 and 1?", answer=2, source="test")])


def promote(layout: Layout, base: str = "scratch", version: str = "v1") -> None:
    """A champion, as a run leaves one."""
    champion = Champion(version=version, test_sha256="0", environment="workflow")
    lineage = Lineage(version=version, parent=None, base=base, base_sha256=None, round=1, holds=["weights"])
    write_json(layout.champion / "champion.json", champion)
    write_json(layout.champion / "policy" / "lineage.json", lineage)


def promote_weights(root: Path, weights: str) -> str:
    """Make a policy of these weights champion, by the stage's own function; returns its version."""
    challenger = _better(root, weights)
    promote_policy(root / "champion", challenger, NOW)
    return challenger.record.version


def keep_weights(root: Path, weights: str) -> str:
    """Keep a policy of these weights for approval, by the stage's own function; returns its version."""
    challenger = _better(root, weights)
    keep_challenger(Layout(root), waiting(challenger))
    return challenger.record.version


def _better(root: Path, weights: str) -> Challenger:
    """A policy of these weights in `run/policy`, which is better than the champion."""
    policy = root / "run" / "policy"
    write_text(policy / "adapter" / "adapter_model.safetensors", weights)
    lineage = Lineage(version="", parent=None, base="scratch", round=1, holds=["adapter"])
    lineage = digest_policy(policy, lineage)
    write_json(policy / "lineage.json", lineage)
    return better_policy(root, weights)


def waiting(challenger: Challenger) -> Challenger:
    """As it waits for approval."""
    return challenger._replace(decision=ask_approval(challenger.decision))


def better_policy(root: Path, weights: str) -> Challenger:
    """The policy in `run/policy` as one that is better than the champion; `weights` is its name in the decision."""
    policy, outcomes = root / "run" / "policy", root / "outcomes.jsonl"
    version = read_json(policy / "lineage.json", Lineage).version
    write_text(outcomes, f"outcomes of {weights}\n")
    reason, opponent = f"promoted: [{weights}] is better", champion_version(root / "champion")
    decision = make_promotion(reason=reason, version=version, champion_version=opponent)
    return Challenger(policy, outcomes, decision, Champion(version=version, test_sha256="0"), PROFILE)
