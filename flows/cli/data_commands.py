"""Commands on data and tasks: what is in a file of problems, which environments there are."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Debug
from tasks.core.terminal import print_text


def problems(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A jsonl file of problems, or a folder of them.")],
    evaluator: Annotated[
        str, typer.Option(metavar="NAME", help="Read the answers as problems.evaluator=NAME would.")
    ] = "format",
    siblings: Annotated[
        int, typer.Option(min=0, max=16, metavar="N", help="Make siblings as problems.siblings=N would.")
    ] = 6,
    debug: Debug = False,  # noqa: ARG001 (read by main)
) -> None:
    """Show what a run would see in a file of problems: its format, how answers are checked, counts and three examples.

    Reads the file and changes nothing. Formats that are recognised by their columns: Graft's own (question and answer),
    GSM8K, MATH, AIME, HotpotQA, MuSiQue, SQuAD, DROP, MMLU, ARC, GPQA, HumanEval, MBPP and more. Unit tests are tried
    in the sandbox. Exits with 2 if no line can be used. Use the file with:
    graft retrain -S problems.source=jsonl -S problems.path=FILE
    """
    from flows.reports.problem_file import describe_files

    print_text(describe_files(file, evaluator, siblings))


def environments(debug: Debug = False) -> None:  # noqa: ARG001 (read by main)
    """List the environments: what the policy writes in each, its prompt, its reward terms; then the evaluators.

    The environment is the param environment, the evaluator problems.evaluator. An environment or an evaluator of your
    own is a class in the project's folder, named as module:CLASS.
    """
    from flows.preflight import project_root
    from flows.reports.environment_list import list_environments
    from tasks.params.file import load_params

    root: Path = project_root()
    print_text(list_environments(root, load_params(root / "params.yaml")))
