"""`graft export`: write the champion, or any policy folder, in a format that needs no Graft."""

from pathlib import Path

from tasks.artifacts import read_json
from tasks.core.terminal import print_text
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.export import ExportFormat, export_policy
from tasks.promote.champion import current_champion, previous_champions
from tasks.promotion_records import Promotion
from tasks.records import Lineage


def export(layout: Layout, policy: Path | None, folder: Path, form: ExportFormat, float32: bool) -> None:
    """Write it and print by how much its logits differ from those of the policy."""
    if policy is None:
        current_champion(layout.champion)
        policy = layout.champion / "policy"
    if not policy.is_dir():
        raise GraftError(f"{policy}: no such policy folder; name one, run/policy for instance")
    version = read_json(policy / "lineage.json", Lineage).version
    difference = export_policy(policy, folder, form, measured_score(layout, version), float32)
    print_text(f"{folder}: {policy} ({version}), {form}; loaded again, no logit differs by more than {difference:.1e}")


def measured_score(layout: Layout, version: str) -> str | None:
    """The greedy score of a version in the decision on its promotion; None if there is none."""
    champions = [layout.champion, *previous_champions(layout.champion).values()]
    for path in (*(place / "promotion.json" for place in champions), layout.promotion):
        if path.is_file() and (decision := read_json(path, Promotion)).version == version:
            return f"{decision.pass_at_1:.3f}, greedy, on the test problems of its run"
    return None
