"""`graft …`. Each command imports what it needs when it runs, so that `graft --help` answers at once."""

import gc
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.process import settings
from flows.process.exit_codes import exit_code

if TYPE_CHECKING:
    from flows.stages.result import StageResult
    from tasks.tracking.mlflow_process import Worker

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Retrain a workflow-writing language model, again and again. "
    "Settings are in params.yaml; results go to run/. Start with: graft retrain",
)

Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "-S",
        "--set-param",
        metavar="KEY=VALUE",
        help="Write a param into params.yaml first, for instance -S grpo.beta=0.05. May be given several times.",
    ),
]
Pull = Annotated[
    bool, typer.Option("--pull", help="Fetch from the DVC remote what was computed elsewhere, instead of computing it.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the Python traceback of an error.")]


@app.callback(invoke_without_command=True)
def graft(
    show_version: Annotated[bool, typer.Option("--version", help="Show Graft's version and end.")] = False,
) -> None:
    if show_version:
        from importlib.metadata import version

        print(f"graft {version('graft')}")
        raise typer.Exit


@app.command(short_help="Run the whole chain: problems in, a better policy out.")
def retrain(
    context: typer.Context,
    assignments: Assignments = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How many rounds of search and update; the same as -S rounds=N.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write a set of params first: small (20 problems, minutes) or improved (200). A -S beside it wins.",
        ),
    ] = None,
    pull: Pull = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be computed, why and for how long, and change nothing."),
    ] = False,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Run the whole chain: problems in, a better policy out.

    Stages whose inputs, params and source are as before are not computed again. Ends with a table of how many test
    problems the policy solves before and after. Interrupt it at any time; the next run goes on where it stopped.
    """
    from rich.console import Console

    from flows.cli.presets import preset as assignments_of
    from flows.preflight import project_root, proposed_params, settle_params
    from flows.process.workspace_lock import exclusive_lock
    from flows.run_session import start_beside
    from tasks.layout import Layout
    from tasks.promotion.champion import read_champion

    root = project_root()
    several = [f"rounds={rounds}"] if rounds else []
    chosen = [*(assignments_of(preset) if preset else ()), *(assignments or []), *several]
    if dry_run:
        from flows.dvc_stages.dry_run import print_forecast

        text, params, _ = proposed_params(root, chosen)
        read_champion(Layout(root).champion, params.environment)
        print_forecast(root, text, params, Console(highlight=False))
        return
    with exclusive_lock(root, "graft retrain"):
        params = settle_params(root, chosen, print)
        read_champion(Layout(root).champion, params.environment)  # what would stop the last stage stops the first
        settings.set_prefect_home(root)
        beside = start_beside(params, context.obj)
        gc.disable()  # what is imported is no garbage; Python would look it through again and again
        from flows.reports.terminal import print_report
        from flows.retrain import start

        gc.freeze()
        gc.enable()
        run = start(root, params, _tell, beside, pull)
        try:
            print_report(Layout(root), params, run.seconds, run.cached, Console())
        finally:
            run.recorded()


@app.command(short_help="Bring single stages up to date.")
def stage(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="A stage, for instance problems or search@1; search means search of each round."
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Compute it even where nothing changed.")] = False,
    pull: Pull = False,
    assignments: Assignments = None,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Bring single stages up to date, in the order given, and nothing before or after them.

    The same as `dvc repro --single-item NAME`, in one process. The names are those of `graft status`.
    """
    from flows.preflight import project_root, settle_params
    from flows.process.workspace_lock import shared_lock

    root = project_root()
    with shared_lock(root, f"graft stage {' '.join(names)}"):
        params = settle_params(root, assignments or [], print)
        from flows.dvc_stages.pipeline import DvcPipeline

        pipeline = DvcPipeline(root, pull, seconds=params.schedule.seconds)
        for address in [address for name in names for address in pipeline.find(name)]:
            _tell(pipeline.run(address, force))


@app.command(short_help="Retrain on a schedule.")
def serve(
    cron: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='When, in five fields and local time: "0 3 * * *" is 3 each night.'),
    ] = None,
    every: Annotated[float | None, typer.Option(min=1, metavar="SECONDS", help="The same as an interval.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the deployment; by default the folder's.")] = None,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Retrain on a schedule, until Ctrl-C: from the champion on, with the problems that are there by then.

    Each run ends with one line: what changed, whether the policy is better, and why it was promoted or not. One that
    finds nothing new says so and does nothing. The lines are kept: graft history. Uses the Prefect server that
    PREFECT_API_URL names, or starts one of its own on this machine. For instance: graft serve --cron "0 3 * * *"
    """
    from flows.preflight import project_root

    root = project_root()
    settings.set_prefect_home(root)
    from flows.scheduling.serve import serve as served

    served(root, cron, every, name)


@app.command(short_help="Show what has become of the scheduled runs.")
def history(
    last: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Only the last N.")] = 20,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Show what has become of the scheduled runs, a line each: what changed, better or not, promoted or not, why."""
    from flows.preflight import project_root
    from flows.scheduling.history import entries

    for entry in entries(project_root())[-last:]:
        print(f"{entry.when}  {entry.line}")


@app.command(short_help="Show which stages are stale, and why.")
def status(debug: Debug = False) -> None:  # noqa: ARG001 (read by main)
    """Show which stages are up to date, and why the others are not: the input, param or source file that changed."""
    from flows.preflight import project_root, settle_params

    root = project_root()
    settle_params(root, [], print)
    from flows.dvc_stages.pipeline import DvcPipeline

    for address, reasons in DvcPipeline(root).stale().items():
        print(f"{address:<16} {'; '.join(reasons) or 'up to date'}")


@app.command(short_help="Draw the search tree of one problem.")
def tree(
    problem_id: Annotated[str, typer.Argument(metavar="PROBLEM_ID", help="As in run/problems/train.jsonl.")],
    round: Annotated[int | None, typer.Option(min=1, help="The round; by default the last one searched.")] = None,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Draw the search tree of one train problem: what the policy wrote, how often, and what came of it.

    A line is a statement with the completions that went through it (×), their mean reward (value) and the policy's
    probability of it (p). Green solves the problem and its siblings. Where a workflow was revised, the line is what
    the model said that it changed.
    """
    from rich.console import Console

    from flows.preflight import project_root
    from flows.reports.search_tree import drawn
    from tasks.layout import Layout

    Console().print(drawn(Layout(project_root()), problem_id, round), highlight=False)


@app.command(short_help="Print the workflows that were found for one problem.")
def workflows(
    problem_id: Annotated[
        str, typer.Argument(metavar="PROBLEM_ID", help="As in run/problems/train.jsonl or validation.jsonl.")
    ],
    round: Annotated[int | None, typer.Option(min=1, help="The round; by default the last one searched.")] = None,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Print the workflows that a round's search found for one train or validation problem, the best ones first.

    Above each stand its name, the share of the problem and its siblings that it solves (value), the completions that
    wrote it (×), the policy's probability of it (p) and who wrote it first. Where the policy writes programs all
    of it is Python: > FILE.py keeps it.
    """
    from flows.preflight import project_root
    from flows.reports.workflow_list import written
    from tasks.layout import Layout

    print(written(Layout(project_root()), problem_id, round), end="")


@app.command(short_help="Look at one GRPO step through the microscope.")
def diagnose(
    problems: Annotated[int, typer.Option(min=1, help="How many train problems, drawn by lot under the seed.")] = 4,
    round: Annotated[
        int | None, typer.Option(min=0, help="The round whose policy takes the step; by default the last there is.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the page to this file, too: with every token of every completion.")
    ] = None,
    assignments: Assignments = None,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Look at one GRPO step through the microscope: is it healthy, and if not, which param to turn?

    Samples a group of completions for each of a few train problems, rewards them, takes one optimiser step in memory,
    and measures the policy before and after it on the same prompts with the same seeds. Ends with 0 whatever it
    finds; nothing of the run is changed. The same project, seed and options give the same page.
    """
    from rich.console import Console

    from flows.preflight import project_root, settle_params
    from tasks.errors import GraftError

    if html is not None and html.is_dir():
        raise GraftError(f"--html {html}: is a folder; name a file, diagnosis.html for instance")
    root = project_root()
    params = settle_params(root, assignments or [], print)
    from flows.diagnosis.diagnose import diagnose as examined
    from flows.diagnosis.page import page_of
    from flows.diagnosis.terminal import print_diagnosis
    from tasks.artifacts import write_text
    from tasks.layout import Layout

    diagnosis = examined(Layout(root), params, problems, round)
    print_diagnosis(diagnosis, Console())
    if html is not None:
        write_text(html, page_of(diagnosis))
        print(f"written: {html}")


@app.command(short_help="Put runs side by side.")
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Where to find a run: the project's folder (. is this one), an account.json that a run left, a DVC "
            "experiment, a git commit that holds a run's dvc.lock, or an MLflow run by its name or id.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page with charts and completions, too; of one run or more."),
    ] = None,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Put runs side by side: the params that differ, and what changed on the test problems.

    The first run is what the others are compared with, problem by problem, so all must have been tested on the same
    ones. A change comes with an interval and p: how often chance alone would do as much. For instance:
    graft compare ../baseline . --html compared.html
    """
    from rich.console import Console

    from flows.reports.compare_command import compare

    compare(runs, Path.cwd(), html, Console())


@app.command(short_help="Take the last promotion back.")
def rollback(
    version: Annotated[
        str | None,
        typer.Argument(metavar="[VERSION]", help="Another champion that is kept; by default the one before this one."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for those who ask the registry later.")] = "no reason given",
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Take the last promotion back: the champion before it is champion again, here and in MLflow's registry.

    What is taken back is kept and is not promoted again by a later run; with its version this command puts it back,
    too. graft champion lists the versions. The next run is compared with the champion that is then in place.
    """
    from flows.champion.rollback import rollback
    from flows.preflight import project_root
    from flows.process.workspace_lock import exclusive_lock
    from tasks.layout import Layout
    from tasks.params.file import load_params

    root = project_root()
    with exclusive_lock(root, "graft rollback"):  # a run may be about to put its policy there
        rollback(Layout(root), load_params(root / "params.yaml"), version, reason)


@app.command(short_help="Show the champion, and who was it before and why.")
def champion(debug: Debug = False) -> None:  # noqa: ARG001 (read by main)
    """Show the champion, and who was champion before it: since when, which one it replaced, and why."""
    from rich.console import Console

    from flows.champion.rollback import print_champions
    from flows.preflight import project_root
    from tasks.layout import Layout

    print_champions(Layout(project_root()), Console())


@app.command(short_help="Write the champion for others, in plain Hugging Face layout.")
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, or an empty one.")],
    merged: Annotated[
        bool,
        typer.Option("--merged/--adapter", help="One model, the adapter in its weights, or the adapter alone."),
    ] = True,
    policy: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Another policy than the champion, run/policy for instance.")
    ] = None,
    float32: Annotated[
        bool, typer.Option("--float32", help="Merged: not in the base's own type, whose rounding costs some precision.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Write the champion for others: a folder that transformers, and peft for an adapter, load with no code of Graft.

    Its README.md says what it is, what pass@1 was measured and how to load it. What was written is loaded again and
    its logits are compared with the policy's own before the folder takes its place.
    """
    from flows.champion.export import export
    from flows.preflight import project_root
    from tasks.layout import Layout

    export(Layout(project_root()), policy, folder, "merged" if merged else "adapter", float32)


@app.command(short_help="Remove old results; by default only list them.")
def clean(
    keep: Annotated[int, typer.Option(min=1, metavar="N", help="So many of the last runs stay in any case.")],
    yes: Annotated[bool, typer.Option("--yes", help="Really remove what is listed.")] = False,
    replies: Annotated[
        bool, typer.Option("--replies", help="Remembered replies of models go, too; asking again costs money.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Remove old results: of the DVC cache, of MLflow and of Prefect, and what killed runs left. First only listed.

    Whatever is locked (by the workspace's dvc.lock or one in a branch, a tag or an experiment), is or was champion, or
    is in use stays, however old. Refused while a run is at work.
    """
    from flows.preflight import project_root
    from flows.process.workspace_lock import exclusive_lock
    from tasks.layout import Layout
    from tasks.params.file import load_params

    root = project_root()
    with exclusive_lock(root, "graft clean"):
        from flows.retention.clean import clean

        clean(Layout(root), load_params(root / "params.yaml"), keep, yes, replies)


@app.command(short_help="List what a workflow may call.")
def operators(debug: Debug = False) -> None:  # noqa: ARG001 (read by main)
    """List the operators, which a workflow may call without importing anything, and what each of them does.

    Those under "served by a model" work where operators.backend in params.yaml names one.
    """
    from inspect import cleandoc, signature

    from tasks.programs.contract import ALL_OPERATORS
    from tasks.programs.operators.builtin import OPERATORS

    for name, function in ALL_OPERATORS.items():
        served = "" if name in OPERATORS or name == "run" else "  [served by a model]"
        print(f"{name}{signature(function)}{served}\n")
        print("\n".join(f"    {line}".rstrip() for line in cleandoc(function.__doc__ or "").splitlines()), end="\n\n")


@app.command(short_help="Check this machine and installation.")
def doctor(debug: Debug = False) -> None:  # noqa: ARG001 (read by main)
    """Check this machine and installation: versions, sandbox, disk, git, params. Exit code 1 if something is wrong."""
    from flows.doctor import examine
    from flows.preflight import project_root

    findings = examine(project_root())
    for finding in findings:
        print(f"{'wrong' if finding.remedy else 'ok':<6} {finding.thing}: {finding.found}")
        if finding.remedy:
            print(f"       remedy: {finding.remedy}")
    raise typer.Exit(any(finding.remedy for finding in findings))


def _tell(outcome: "StageResult") -> None:
    print(f"{outcome.address:<16} {outcome.how:<10} {outcome.seconds:7.1f} s", flush=True)


def main() -> None:
    """Run the command line; exit code 2 and one line for what the user can mend, 130 after Ctrl-C."""
    settings.set_environment()
    arguments = sys.argv[1:]
    sys.exit(exit_code(lambda: app(prog_name="graft", obj=_worker(arguments)), debug="--debug" in arguments))


def _worker(arguments: list[str]) -> "Worker | None":
    """For a run, the process that talks to MLflow: it takes its time, so it begins before the command line is read.

    It ends by itself where there is to be no run.
    """
    if arguments[:1] != ["retrain"] or {"--dry-run", "--help"} & {*arguments} or not Path("params.yaml").is_file():
        return None
    from tasks.tracking.mlflow_process import start_worker

    with suppress(OSError):  # the recorder tries again, and warns
        return start_worker(Path.cwd())
    return None


if __name__ == "__main__":
    main()
