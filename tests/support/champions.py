"""A champion's folder, as a promotion leaves it."""

from pathlib import Path

from tasks.artifacts import write_json, write_text
from tasks.layout import Layout
from tasks.model.version import compute_version
from tasks.promote.champion import promote_policy
from tasks.promotion_records import Champion
from tasks.records import Lineage, Problem
from tasks.statistics.problem_profile import profile_of

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
    policy, outcomes = root / "run" / "policy", root / "outcomes.jsonl"
    write_text(policy / "adapter" / "adapter_model.safetensors", weights)
    version = compute_version(policy, "scratch", None)
    lineage = Lineage(version=version, parent=None, base="scratch", round=1, holds=["adapter"])
    write_json(policy / "lineage.json", lineage)
    write_text(outcomes, f"outcomes of {weights}\n")
    champion = Champion(version=version, test_sha256="0")
    promote_policy(root / "champion", policy, outcomes, "{}", champion, f"[{weights}] is better", NOW, PROFILE)
    return version
