"""The command line `graft …`. Each command imports what it needs when it runs, so that `graft --help` is fast."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from flows.cli.champion_commands import ask, champion, export, promote, rollback
from flows.cli.options import Debug
from flows.cli.read_commands import (
    alerts,
    compare,
    diagnose,
    doctor,
    environments,
    history,
    operators,
    problems,
    status,
    suspects,
    tree,
    ui,
    workflows,
)
from flows.cli.run_commands import clean, new, retrain, serve, stage

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Retrain a language model that writes workflows, round by round. "
    "Settings are in params.yaml; results go to run/. Start with: graft retrain",
)

COMMANDS: dict[Callable[..., None], str] = {
    retrain: "Run the complete chain, from problems to an improved policy.",
    stage: "Bring single stages up to date.",
    serve: "Retrain on a schedule.",
    alerts: "Test the alerts of scheduled runs.",
    ui: "Open the history of this project in a browser.",
    history: "Show the runs of this project, a line each.",
    status: "Show which stages are stale, and why.",
    tree: "Draw the search tree of one problem.",
    workflows: "Print the workflows found for one problem.",
    diagnose: "Diagnose one GRPO step.",
    compare: "Compare runs.",
    suspects: "List the problems whose key looks wrong.",
    ask: "Ask the champion a question.",
    promote: "Approve a policy that waits to become champion.",
    rollback: "Undo the last promotion.",
    champion: "Show the champion and its predecessors.",
    export: "Export the champion in plain Hugging Face layout, or as a GGUF file.",
    clean: "Delete old results; without --yes, list them.",
    operators: "List the functions that a workflow may call.",
    environments: "List the environments and the evaluators of answers.",
    problems: "Show what is in a file of problems.",
    doctor: "Check this machine and installation.",
    new: "Make a project that runs the installed Graft.",
}
"""Command → its line in `graft --help`."""


def with_debug(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --debug as its last option, which `main` reads."""

    @wraps(command)
    def without(debug: bool, **options: Any) -> None:  # noqa: ARG001
        command(**options)

    wrapped = signature(command)
    debug = Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    without.__signature__ = wrapped.replace(parameters=[*wrapped.parameters.values(), debug])  # type: ignore[attr-defined]
    return without


for command, line in COMMANDS.items():
    app.command(short_help=line)(with_debug(command))


@app.callback(invoke_without_command=True)
def graft(
    show_version: Annotated[bool, typer.Option("--version", help="Show Graft's version and exit.")] = False,
) -> None:
    if show_version:
        from importlib.metadata import version

        print(f"graft {version('graft')}")
        raise typer.Exit
