"""Commands that read results and change nothing of a run."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import Assignments
from flows.process import settings
from tasks.core.terminal import print_text


def history(
    last: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Show only the last N.")] = 31,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON instead.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page: curves with intervals, and all of each run.")
    ] = None,
) -> None:
    """Show the runs of this project, a line each: name, minutes, lead over the champion, decision, who approved.

    Marked are what is served, the latest policy, from which the next scheduled run starts, and what was left behind.

    The name is the same in MLflow and Prefect: the number of the run, the params that differ from the last run that
    succeeded, and pass@1 greedy before and after. graft compare takes the number. Scheduled runs that found nothing new
    are counted; errors are below, and earlier test sets on which a policy may have lost too much.
    """
    from flows.preflight import project_root
    from flows.reports.history import list_nights, print_history
    from tasks.core.console import PlainConsole
    from tasks.layout import Layout

    layout = Layout(project_root())
    if html is not None:
        from flows.reports.html.month import render_month
        from flows.reports.html.page import write_page_file

        write_page_file(html, render_month(list_nights(layout, last)))
    if as_json:
        print(json.dumps([night.json for night in list_nights(layout, last)], indent=2))
    else:
        print_history(layout, last, PlainConsole(highlight=False))


def status() -> None:
    """Show which stages are up to date, and why the others are not: the input, param or source file that changed."""
    from flows.preflight import checked_params, project_root

    root = project_root()
    text, _, _ = checked_params(root)
    from flows.dvc_stages.pipeline import DvcPipeline

    for stage_id, reasons in DvcPipeline(root, params=text).stale().items():
        print_text(f"{stage_id:<16} {'; '.join(reasons) or 'up to date'}")


def tree(
    problem_id: Annotated[str, typer.Argument(metavar="PROBLEM_ID", help="As in run/problems/train.jsonl.")],
    round: Annotated[int | None, typer.Option(min=1, help="The round; by default the last one searched.")] = None,
) -> None:
    """Draw the search tree of one train problem: what the policy wrote, how often, and with what result.

    A line is a statement with the number of completions that contain it (×), their mean reward (value) and its
    probability under the policy (p). Green: it solves the problem and its siblings.
    """
    from flows.preflight import project_root
    from flows.reports.search_tree import draw_tree
    from tasks.core.console import PlainConsole
    from tasks.layout import Layout

    PlainConsole().print(draw_tree(Layout(project_root()), problem_id, round), highlight=False, markup=True)


def workflows(
    problem_id: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM_ID", help="As in run/problems/train.jsonl; with --write by default all."),
    ] = None,
    round: Annotated[
        int | None, typer.Option(min=1, help="The round; by default the last one searched, with --write all.")
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write a file DIR/PROBLEM_ID-RANK.py of each workflow instead; 1 is the best."
        ),
    ] = None,
) -> None:
    """Print the workflows that a round's search found for one train problem, best first, or write them to files.

    The line above each shows its name, the share of the problem and its siblings that it solves (value), how many
    completions wrote it (×), its probability under the policy (p) and its first author. Where the policy writes
    programs the output is valid Python.
    """
    from flows.preflight import project_root
    from flows.reports.search_tree import list_workflows, write_workflow_files
    from tasks.errors import GraftError
    from tasks.layout import Layout

    if write is not None:
        written = write_workflow_files(Layout(project_root()), problem_id, round, write)
        print_text(f"{written} workflows are in {write}")
    elif problem_id is not None:
        print(list_workflows(Layout(project_root()), problem_id, round), end="")
    else:
        raise GraftError("workflows: name a problem, as in run/problems/train.jsonl, or --write DIR for all of them")


def diagnose(
    problems: Annotated[
        int | None,
        typer.Option(min=1, help="Number of train problems, sampled with the seed; by default those of a step."),
    ] = None,
    round: Annotated[
        int | None, typer.Option(min=0, help="The round whose policy takes the step; by default the last one.")
    ] = None,
    assignments: Assignments = None,
) -> None:
    """Diagnose one GRPO step: is it healthy, and if not, which param should change?

    Samples a group of completions for each train problem of one step, rewards them, takes the first step of an update
    in memory, and measures the policy before and after it on the same prompts with the same seeds. The exit code is 0
    whatever it finds; the run is not changed. The same project, seed and options give the same output.
    """
    from flows.preflight import checked_params, project_root, write_params
    from tasks.core.console import PlainConsole

    root = project_root()
    params = write_params(root, assignments, print_text) if assignments else checked_params(root)[1]
    from flows.diagnosis.diagnose import diagnose as examined
    from flows.diagnosis.terminal import print_diagnosis
    from tasks.layout import Layout
    from tasks.model.device import use_device

    with use_device(params.machine.device):
        print_diagnosis(examined(Layout(root), params, problems, round), PlainConsole())


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="A run: its number in graft history, a project folder (. is this one), the account.json of a run, a "
            "DVC experiment, or a git commit with the dvc.lock of a run.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write a page with charts and completions, of one run or more."),
    ] = None,
) -> None:
    """Compare runs: the params that differ, and the change on the test problems.

    The others are compared with the first run, problem by problem, so all must have been tested on the same ones. A
    change is shown with an interval and p, the probability of a change as large by chance alone.
    """
    from flows.reports.compare_command import compare
    from tasks.core.console import PlainConsole

    compare(runs, Path.cwd(), html, PlainConsole())


def suspects(
    above: Annotated[
        float, typer.Option(min=0, max=1, metavar="P", help="Only keys that are wrong with at least this probability.")
    ] = 0.5,
    last: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Print only the N most doubtful.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print all as JSON instead.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a page with all of them.")] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also add their digests to a file for problems.exclude."),
    ] = None,
) -> None:
    """List the problems whose key looks wrong: what most completions answer, in how many rounds, how probable it is.

    Counts the independent completions of all rounds and evaluations of this project that are in DVC's cache, on the
    problems that there are now. Drops nothing: correct the keys, or set problems.exclude to the file of --write.
    """
    from flows.preflight import checked_params, project_root
    from flows.suspects.suspects import find_suspects, print_findings, write_excluded, write_page
    from tasks.core.console import PlainConsole

    root = project_root()
    found = find_suspects(root, checked_params(root)[1], above)
    if as_json:
        print(found.model_dump_json(indent=2))
    else:
        print_findings(found, last, PlainConsole(highlight=False))
    if html is not None:
        write_page(html, found)
    if write is not None:
        added = write_excluded(write, found.suspects)
        typer.echo(f"{write}: {added} lines added; use it with -S problems.exclude={write}", err=True)


def ui(
    open_browser: Annotated[bool, typer.Option("--open", help="Also open the pages in your browser.")] = False,
) -> None:
    """Open the history of this project: Prefect's and MLflow's pages, and the page of the newest run, until Ctrl-C.

    Prints an address for each. The servers listen on this machine only, on a free port. If PREFECT_API_URL or
    machine.tracking.uri names a server of yours, its address is printed instead. Runs may be started in the meantime.
    """
    from flows.prefect_runs.server_address import check_settings
    from flows.preflight import project_root

    root = project_root()
    settings.set_prefect_home(root)
    check_settings()
    from flows.ui import show
    from tasks.params.file import load_params

    show(root, load_params(root / "params.yaml").machine.tracking, open_browser)


def operators() -> None:
    """List the operators: functions that a workflow may call without importing anything.

    Those marked "served by a model" need operators.backend in params.yaml.
    """
    from inspect import cleandoc, signature

    from tasks.programs.operators.builtin import OPERATORS
    from tasks.programs.sandbox.run_program import ALL_OPERATORS

    for name, function in ALL_OPERATORS.items():
        served = "" if name in OPERATORS or name in ("run", "test") else "  [served by a model]"
        print(f"{name}{signature(function)}{served}\n")
        print("\n".join(f"    {line}".rstrip() for line in cleandoc(function.__doc__ or "").splitlines()), end="\n\n")


def problems(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A jsonl file of problems, or a folder of them.")],
    evaluator: Annotated[
        str, typer.Option(metavar="NAME", help="Read the answers as problems.evaluator=NAME would.")
    ] = "format",
    siblings: Annotated[
        int, typer.Option(min=0, max=16, metavar="N", help="Make siblings as problems.siblings=N would.")
    ] = 6,
    environment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Read it as environment=NAME would, not as the one of params.yaml."),
    ] = None,
) -> None:
    """Show what a run would see in a file of problems: its format, how answers are checked, counts and three examples.

    Reads the file and changes nothing. Formats that are recognised by their columns: Graft's own (question and answer),
    GSM8K, MATH, AIME, HotpotQA, MuSiQue, SQuAD, DROP, MMLU, ARC, GPQA and more, and those of the environment, which may
    try the problems out: see --environment. The longest questions are tried in the project's base, if it is on this
    machine. Exits with 2 if no line can be used. Use the file with:
    graft retrain -S problems.source=jsonl -S problems.path=FILE
    """
    from flows.reports.problem_file import describe_files

    print_text(describe_files(file, evaluator, siblings, environment))


def environments(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Of this one alone, with its params.")] = None,
) -> None:
    """List the environments: what the policy writes in each, its params, reward terms, prompt; then the evaluators.

    The environment is the param environment, the evaluator problems.evaluator. An environment or an evaluator of your
    own is a class in the project's folder, named as module:CLASS.
    """
    from flows.preflight import project_root
    from flows.reports.environment_list import list_environments
    from tasks.params.file import load_params

    root = project_root()
    print_text(list_environments(root, load_params(root / "params.yaml"), name))


def alerts(
    action: Annotated[Literal["test"], typer.Argument(metavar="ACTION", help="test: send a test alert.")],  # noqa: ARG001
) -> None:
    """Send a test alert to each address of GRAFT_ALERTS and to the server of PREFECT_API_URL.

    Says of each whether it was accepted; exit code 2 if one was not, or none is set.
    """
    from flows.prefect_runs.server_address import check_settings
    from flows.preflight import project_root

    root = project_root()
    settings.set_prefect_home(root)
    check_settings()
    from flows.alerts.channels import try_channels

    try_channels(root, print_text)


def doctor() -> None:
    """Check this machine and installation: versions, params, sandbox, memory, disk, card and what else a run needs.

    A table says what does not work and what happens instead, or the remedy. Exit code 1 if a run with the params of
    this folder would fail; a warning alone, of what is off or slower, is 0.
    """
    from flows.doctor import examine
    from flows.preflight import project_root
    from tasks.core.console import PlainConsole
    from tasks.core.terminal import make_table

    findings = examine(project_root())
    table = make_table("", "thing", "result", "does not work", "instead, or remedy")
    for column in table.columns[2:]:
        column.no_wrap, column.overflow = False, "fold"
    for finding in findings:
        table.add_row(finding.state, finding.thing, finding.result, finding.lost, finding.remedy or "")
    PlainConsole(highlight=False).print(table)
    raise typer.Exit(any(finding.state == "wrong" for finding in findings))
