"""Worker process of a stage in several processes; tasks/model/distributed/torchrun.py starts it with torchrun.

    torchrun --nproc-per-node 2 -m tasks.model.distributed.torchrun_worker FOLDER

Only rank 0 writes to the run's stderr; the others' output goes to torchrun's log.
"""

import os
import sys
from pathlib import Path

from tasks.core.child_process import end_with_parent
from tasks.model.distributed.collectives import process_group
from tasks.model.distributed.torchrun import ERROR, JOB, STORE, error_to_json, read_job

LOST = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
"""In what gloo raises where another process is gone: that one's error is the one to show, or that it was ended."""


def main(folder: Path) -> None:
    """Run the folder's job; an exception is written to the folder for the waiting process."""
    end_with_parent()
    if os.environ["RANK"] == "0":
        os.dup2(1, 2)
    try:
        work, layout, params, round = read_job(folder / JOB)
        with process_group(folder / STORE):
            work(layout, params, round)
    except Exception as error:  # noqa: BLE001 (raised again in the waiting process)
        if not any(words in str(error) for words in LOST):
            _write_error(folder, error)
        os._exit(1)  # at once: torchrun then ends the others, which wait for this one


def _write_error(folder: Path, error: Exception) -> None:
    """Only the first error is kept: the others follow from it."""
    file = folder / f"{ERROR}.{os.environ['RANK']}"
    file.write_text(error_to_json(error), encoding="utf-8")
    try:
        os.link(file, folder / ERROR)
    except FileExistsError:
        file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
