"""Commands of the champion: the policy that the last promotion chose."""

from pathlib import Path
from typing import Annotated

import typer


def champion() -> None:
    """Show the champion and its predecessors: since when, which one each replaced, and why.

    Before that the policy that waits for approval, if one does.
    """
    from flows.champion import print_champions
    from flows.preflight import project_root
    from tasks.core.console import PlainConsole
    from tasks.layout import Layout

    print_champions(Layout(project_root()), PlainConsole(highlight=False))


def promote(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Its version; the first four characters suffice.")],
    reason: Annotated[str, typer.Option(help="The reason, for the history of champions.")] = "",
) -> None:
    """Make the policy that waits for approval champion, where promotion.approve is person.

    graft champion shows it, challenger/page.html has its comparison. Refused if another policy became champion since.
    """
    from flows.champion import promote
    from flows.preflight import project_root
    from flows.process.workspace_lock import exclusive_lock
    from tasks.layout import Layout
    from tasks.params.file import load_params

    root = project_root()
    with exclusive_lock(root, "graft promote"):  # a run may be about to replace the champion
        promote(Layout(root), load_params(root / "params.yaml"), version, reason)


def rollback(
    version: Annotated[
        str | None,
        typer.Argument(metavar="[VERSION]", help="Another former champion that was kept; by default the previous one."),
    ] = None,
    reason: Annotated[str, typer.Option(help="The reason, for the registry.")] = "no reason given",
) -> None:
    """Undo the last promotion: the previous champion is champion again, here and in the registry.

    The undone one is kept, but later runs do not promote it again; this command with its version restores it. graft
    champion lists the versions.
    """
    from flows.champion import rollback
    from flows.preflight import project_root
    from flows.process.workspace_lock import exclusive_lock
    from tasks.layout import Layout
    from tasks.params.file import load_params

    root = project_root()
    with exclusive_lock(root, "graft rollback"):  # a run may be about to replace the champion
        rollback(Layout(root), load_params(root / "params.yaml"), version, reason)


def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    merged: Annotated[
        bool,
        typer.Option(
            "--merged/--adapter", help="One model with the adapter merged into its weights, or the adapter alone."
        ),
    ] = True,
    policy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Another policy, run/policy for instance.")
    ] = None,
    float32: Annotated[
        bool,
        typer.Option("--float32", help="With --merged: float32 weights instead of the base's type, which rounds them."),
    ] = False,
) -> None:
    """Export the champion: a folder that transformers, and peft for an adapter, load without Graft.

    Its README.md describes the model, its measured pass@1 and how to load it. Before the folder is put in place, the
    model is loaded from it and its logits are compared with the policy's.
    """
    from flows.champion import export
    from flows.preflight import project_root
    from tasks.layout import Layout

    export(Layout(project_root()), policy, folder, "merged" if merged else "adapter", float32)
