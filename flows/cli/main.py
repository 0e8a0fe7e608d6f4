"""The entry of the command line `graft …`. The rest is imported once its errors and signals have their exit codes."""

import sys

from flows.process.exit_codes import exit_code
from flows.process.signals import open_standard_streams


def main() -> None:
    """Run the command line: exit code 2 and one line for an error that the user can fix, 130 after Ctrl-C."""
    open_standard_streams()
    sys.exit(exit_code(_main, debug="--debug" in sys.argv[1:]))


def _main() -> None:
    from flows.process import settings

    settings.set_environment()
    from flows.cli.app import app

    app(prog_name="graft")


if __name__ == "__main__":
    main()
