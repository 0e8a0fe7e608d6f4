"""Commands that compute or remove results."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Assignments
from flows.process import settings
from tasks.core.terminal import print_text


def retrain(
    assignments: Assignments = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="How many rounds of search and update; the same as -S rounds=N.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write the params of a preset first: small for instance; a name that there is none of lists them.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show what would be computed, why, and the seconds it last took; change nothing."
        ),
    ] = False,
) -> None:
    """Run the complete chain, from problems to an improved policy.

    A stage is computed only if its inputs, params or source have changed. Ends with a table of how many test problems
    the policy solves before and after. Interrupt it at any time; the next run continues where it stopped.
    """
    from flows.cli.presets import check_base_is_named
    from flows.cli.presets import preset as assignments_of
    from flows.prefect_runs.server_address import check_settings
    from flows.preflight import project_root, proposed_params, questions_of, write_params
    from flows.process.workspace_lock import RETRAIN, exclusive_lock
    from tasks.bootstrap.base_check import check_base
    from tasks.core.console import PlainConsole
    from tasks.layout import Layout
    from tasks.promote.champion import read_champion

    root = project_root()
    chosen = [
        *(assignments_of(preset) if preset else ()),
        *(assignments or []),
        *([f"rounds={rounds}"] if rounds else []),
    ]
    text, params, _ = proposed_params(root, chosen)
    check_base_is_named(preset, params.policy.base)
    read_champion(Layout(root).champion, params.environment.name)  # an error here would stop the last stage
    questions = questions_of(root, params)
    if questions or not dry_run:  # a forecast alone does not need the base
        check_base(params.policy, questions)
    if dry_run:
        from flows.dvc_stages.dry_run import print_forecast

        print_forecast(root, text, PlainConsole(highlight=False))
        return
    with exclusive_lock(root, RETRAIN):
        params = write_params(root, chosen, print_text)
        settings.set_prefect_home(root)
        check_settings()
        from flows.reports.terminal import print_report
        from flows.retrain import retrain

        session = retrain(root, params, print_text)
        try:
            if session.record:
                print_report(Layout(root), params, session.record, session.seconds, session.cached, PlainConsole())
        finally:
            session.wait()


def stage(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="A stage, for instance problems or search@1; search means search of each round."
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Compute it even if nothing has changed.")] = False,
    assignments: Assignments = None,
) -> None:
    """Bring single stages up to date, in the order given, without those that they depend on.

    The same as `dvc repro --single-item NAME`, in one process. The names are those of `graft status`.
    """
    from flows.preflight import project_root, write_params
    from flows.process.workspace_lock import shared_lock

    root = project_root()
    with shared_lock(root, f"graft stage {' '.join(names)}"):
        params = write_params(root, assignments or [], print_text)
        from flows.dvc_stages.pipeline import DvcPipeline

        pipeline = DvcPipeline(root, seconds=params.machine.schedule.seconds)
        for stage_id in [stage_id for name in names for stage_id in pipeline.find(name)]:
            print_text(pipeline.run(stage_id, force))


def serve(
    cron: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='When, in five fields and local time: "0 3 * * *" is 3 each night.'),
    ] = None,
    every: Annotated[float | None, typer.Option(metavar="SECONDS", help="An interval instead.")] = None,
    watch: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Also, or only, when problems have arrived in this folder or file."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the deployment; by default that of the folder.")] = None,
) -> None:
    """Retrain on a schedule, until Ctrl-C. Each run starts from the latest policy, with the problems of that time.

    A run that finds nothing new does nothing. The others end with a line that graft history prints. The Prefect server
    is that of PREFECT_API_URL, or one that is started on this machine. For instance: graft serve --cron "0 3 * * *"
    """
    from flows.prefect_runs.server_address import check_settings
    from flows.preflight import project_root

    root = project_root()
    settings.set_prefect_home(root)
    check_settings()
    from flows.scheduling.serve import serve as served

    served(root, cron, every, watch, name)


def clean(
    keep: Annotated[int, typer.Option(min=1, metavar="N", help="Keep the last N runs.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete instead of listing.")] = False,
    replies: Annotated[
        bool, typer.Option("--replies", help="Also delete the cached replies of models; asking again costs money.")
    ] = False,
) -> None:
    """Delete old results in the DVC cache, and what killed runs left. Without --yes, list them.

    Kept in any case: results in a dvc.lock of the workspace, a branch, a tag or an experiment, present and former
    champions, and files in use. Refused while a run is at work. Runs in Prefect and the tracker stay.
    """
    from flows.preflight import project_root
    from flows.process.workspace_lock import exclusive_lock
    from tasks.layout import Layout

    root = project_root()
    with exclusive_lock(root, "graft clean"):
        from flows.retention.clean import clean

        clean(Layout(root), keep, yes, replies)


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is new or empty.")],
) -> None:
    """Make a project: params, stages, an example of problems and of a reward, under git and DVC.

    It has none of Graft's source: its stages run the installed Graft, and an upgrade makes stale what it changed.
    """
    from flows.project.new_project import new_project

    new_project(folder)
    print_text(f"{folder}: a new project; go on with: cd {shlex.quote(str(folder))} && graft retrain")
