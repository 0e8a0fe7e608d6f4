"""One process of a stage in several: what tasks/model/distributed/torchrun.py has torchrun start.

    torchrun --nproc-per-node 2 -m tasks.model.distributed.torchrun_worker FOLDER

Only the first one is heard: what the others write to stderr goes where torchrun's own messages go.
"""

import os
import sys
from pathlib import Path

from tasks.core.child_process import end_with_parent
from tasks.model.distributed.collectives import process_group
from tasks.model.distributed.job_file import error_to_json, read_job
from tasks.model.distributed.torchrun import ANSWER, ORDER, STORE


def main(folder: Path) -> None:
    """Do what the folder orders; an error goes into it for the process that waits."""
    end_with_parent()
    if os.environ["RANK"] == "0":
        os.dup2(1, 2)
    try:
        work, layout, params, round = read_job(folder / ORDER)
        with process_group(folder / STORE):
            work(layout, params, round)
    except Exception as error:  # noqa: BLE001 (raised again where somebody waits for it)
        _answer(folder, error)
        os._exit(1)  # at once: the others wait for this one, and are ended because it has


def _answer(folder: Path, error: Exception) -> None:
    """The first error stays: those of the others follow from it."""
    own = folder / f"{ANSWER}.{os.environ['RANK']}"
    own.write_text(error_to_json(error), encoding="utf-8")
    try:
        os.link(own, folder / ANSWER)
    except FileExistsError:
        own.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
