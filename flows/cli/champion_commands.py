"""Commands of the champion: the policy that the last promotion chose."""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tasks.core.terminal import print_text

PolicyName = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FOLDER|VERSION",
        help="Another policy: run/policy for instance, or four characters of the version of one that is here.",
    ),
]


def champion() -> None:
    """Show the champion and its predecessors: since when, which one each replaced, and why.

    Before that the policy that waits for approval, if one does.
    """
    from flows.champion import print_champions
    from flows.preflight import project_root
    from tasks.core.console import PlainConsole
    from tasks.layout import Layout

    print_champions(Layout(project_root()), PlainConsole(highlight=False))


def ask(
    question: Annotated[
        str | None, typer.Argument(metavar="[QUESTION]", help="By default each line of standard input is one.")
    ] = None,
    policy: PolicyName = None,
    samples: Annotated[
        int, typer.Option(min=0, max=1000, metavar="N", help="Show N tries at evaluation.temperature, too.")
    ] = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Let the policy that its run started from answer beside it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line instead.")] = False,
) -> None:
    """Ask the champion a question: its program or text is printed, and below it the value that this gives.

    The answer is the greedy one, as the evaluation takes it: the same each time. Tries are drawn by seeds of the
    question, and so are the same each time, too. A program runs in the sandbox. For instance: graft ask "Ann has 3
    boxes of 4 pens. How many pens are that?"
    """
    from flows.ask import as_record, as_text, ask
    from flows.preflight import project_root
    from tasks.errors import GraftError
    from tasks.layout import Layout
    from tasks.model.device import use_device
    from tasks.params.file import load_params

    if question is None and sys.stdin.isatty():
        raise GraftError('ask: there is no question; write one, graft ask "…", or pipe a file with one on each line')
    root = project_root()
    params = load_params(root / "params.yaml")
    questions = (line.rstrip("\r\n") for line in sys.stdin) if question is None else [question]
    with use_device(params.machine.device):
        for asked, replies in ask(Layout(root), params, questions, policy, samples, compare):
            if as_json:
                print(json.dumps(as_record(asked, replies), ensure_ascii=False), flush=True)
            else:
                print_text(as_text(replies) if question else f"# {asked}\n{as_text(replies)}\n")


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
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="A new or empty folder; not with --gguf.")
    ] = None,
    merged: Annotated[
        bool,
        typer.Option(
            "--merged/--adapter", help="One model with the adapter merged into its weights, or the adapter alone."
        ),
    ] = True,
    policy: PolicyName = None,
    float32: Annotated[
        bool,
        typer.Option("--float32", help="With --merged: float32 weights instead of the base's type, which rounds them."),
    ] = False,
    gguf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file in GGUF, for llama.cpp and Ollama, not a folder.")
    ] = None,
    type: Annotated[
        Literal["f16", "q8_0", "f32"], typer.Option(help="With --gguf: of the weights. q8_0: 8 bits, in blocks.")
    ] = "f16",
) -> None:
    """Export the champion: a folder that transformers, and peft for an adapter, load without Graft, or a GGUF file.

    The folder's README.md describes the model, its measured pass@1 and how to load it. A GGUF file has the merged
    model, the tokenizer and its chat template. Before either is put in place, the model is loaded from it and its
    logits are compared with the policy's.
    """
    from flows.champion import export, export_file
    from flows.preflight import project_root
    from tasks.errors import GraftError
    from tasks.layout import Layout

    layout = Layout(project_root())
    if (folder is None) == (gguf is None) or (gguf is not None and (float32 or not merged)):
        raise GraftError("export: name a new folder, or by --gguf a new file, which has the merged model in its --type")
    if gguf is not None:
        export_file(layout, policy, gguf, type)
    elif folder is not None:
        export(layout, policy, folder, "merged" if merged else "adapter", float32)
