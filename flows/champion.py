"""`graft champion` prints the history of champions, `graft promote` approves a challenger, `graft rollback` restores an
earlier champion, and `graft export` writes one, or any policy folder, in a format that needs no Graft."""

from os.path import isdir  # False for a name that is too long, for which pathlib raises
from pathlib import Path

from rich.console import Console

from tasks.artifacts import read_json
from tasks.core.terminal import make_table, print_text, print_warning
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.checkpoints.export import ExportFormat, export_policy
from tasks.model.checkpoints.gguf_export import WeightType, export_gguf
from tasks.model.checkpoints.version import LINEAGE
from tasks.params.params import Params
from tasks.promote.challenger import approve_challenger, read_challenger
from tasks.promote.champion import (
    check_beginning,
    current_champion,
    previous_champions,
    read_history,
    roll_back,
    utc_now,
    verify_champion,
)
from tasks.promote.latest import follow_champion, keep_champion, read_latest
from tasks.records.policy import Lineage
from tasks.records.promotion import Promotion
from tasks.redaction import redacted
from tasks.tracking.recorder import update_registry


def promote(layout: Layout, params: Params, version: str, reason: str) -> None:
    """Make the policy that waits for approval the champion, then update the registry."""
    step = approve_challenger(layout, version, _one_line(reason), utc_now())
    follow_champion(layout, step)
    print_text(f"champion: {step.version}, {step.reason}")
    if step.replaced:
        print_text(f"to undo this: graft rollback; {step.replaced} is kept")
    _update_registry(layout, params)


def rollback(layout: Layout, params: Params, version: str | None, reason: str) -> None:
    """Restore an earlier champion, then update the registry."""
    step = roll_back(layout.champion, version, _one_line(reason), utc_now())
    keep_champion(layout)
    print_text(f"champion: {step.version}, {step.how} ({step.reason}); {step.replaced} was taken back and is kept")
    print_text(f"to undo this: graft rollback {step.replaced}")
    decision = read_json(layout.promotion, Promotion) if layout.promotion.exists() else None
    if decision and decision.champion_version == step.replaced and decision.version != step.version:
        print_text(f"The last run was compared with {step.replaced}; to compare it again: graft stage promote --force")
    _update_registry(layout, params)


def _one_line(reason: str) -> str:
    return redacted(" ".join(reason.split()))


def _update_registry(layout: Layout, params: Params) -> None:
    """A failure is a warning."""
    if problem := update_registry(layout, params):
        follows = "champion/ is as it should be, and the registry follows at the next run, promotion or rollback"
        print_warning(f"{params.machine.tracking.place}: {problem}; {follows}")


def print_champions(layout: Layout, console: Console) -> None:
    """Print a challenger, the champion and its history, the latest first. Raises GraftError if there is neither."""
    challenger = read_challenger(layout)
    if challenger:
        console.print(f"challenger: {challenger.version} in {layout.challenger.name}/; {challenger.reason}")
        if not layout.champion.exists():
            return
    champion, others = current_champion(layout.champion).version, previous_champions(layout.champion)
    table = make_table("since", "champion", "", "replaced", "why", wrap="why")
    for step in reversed(read_history(layout.champion)):
        table.add_row(step.time, step.version, step.how, step.replaced or "", step.reason)
    console.print(f"champion: {champion} in {layout.champion.name}/policy")
    latest = read_latest(layout)
    if latest and latest.version != champion:
        console.print(f"latest: {latest.version} in {layout.latest.name}/policy, from which scheduled runs start")
    console.print(f"kept, for graft rollback VERSION: {', '.join(others) or 'none'}")
    if table.row_count:
        console.print()
        console.print(table)


POLICIES = (
    *("champion/policy", "champion/previous/*/policy", "challenger/policy", "latest/policy", "latest/first"),
    *("run/policy", "run/rounds/*/policy"),
)
"""Where a project has policies."""


def policies_of(layout: Layout) -> dict[str, Path]:
    """Version → folder of each policy of the project."""
    folders = [folder for place in POLICIES for folder in sorted(layout.root.glob(place))]
    known = [folder for folder in folders if (folder / LINEAGE).is_file()]
    return {read_json(folder / LINEAGE, Lineage).version: folder for folder in reversed(known)}


def find_policy(layout: Layout, name: Path | str | None) -> Path:
    """The folder of a policy by its path or the beginning of its version; None: the champion's."""
    if name is None:
        verify_champion(layout.champion, current_champion(layout.champion).version)
        return layout.champion / "policy"
    if isdir(name):
        return Path(name)
    check_beginning(str(name))
    meant = [folder for version, folder in policies_of(layout).items() if version.startswith(str(name))]
    if len(meant) != 1:
        raise GraftError(
            f"{name}: no such policy folder, and no version of a policy here; name run/policy for instance"
        )
    return meant[0]


def export(layout: Layout, policy: Path | str | None, folder: Path, form: ExportFormat, float32: bool) -> None:
    """Write it and print by how much its logits differ from those of the policy."""
    policy = find_policy(layout, policy)
    version = read_json(policy / LINEAGE, Lineage).version
    difference = export_policy(policy, folder, form, measured_score(layout, version), float32)
    print_text(f"{folder}: {policy} ({version}), {form}; loaded again, no logit differs by more than {difference:.1e}")


def export_file(layout: Layout, policy: Path | str | None, file: Path, weights: WeightType) -> None:
    """Write it as one GGUF file and print by how much its logits differ from those of the policy."""
    folder = find_policy(layout, policy)
    difference = export_gguf(folder, file, weights)
    version = read_json(folder / LINEAGE, Lineage).version
    print_text(f"{file}: {folder} ({version}), {weights}; loaded again, no logit differs by more than {difference:.1e}")


def measured_score(layout: Layout, version: str) -> str | None:
    """The greedy score of a version in the decision on its promotion; None if there is none."""
    champions = [layout.champion, *previous_champions(layout.champion).values()]
    for path in (*(place / "promotion.json" for place in champions), layout.promotion):
        if path.is_file() and (decision := read_json(path, Promotion)).version == version:
            return f"{decision.pass_at_1:.3f}, greedy, on the test problems of its run"
    return None
