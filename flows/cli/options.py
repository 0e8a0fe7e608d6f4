"""Options that several commands share."""

from typing import Annotated

import typer

Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "-S",
        "--set-param",
        metavar="KEY=VALUE",
        help="Write a param into params.yaml first, for instance -S update.beta=0.05. Can be repeated.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the Python traceback of an error.")]
