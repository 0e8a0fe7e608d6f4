"""Output that nobody reads any more ends no run."""

import os
import select
import threading


def outlive_readers() -> None:
    """From now on, what this process writes goes nowhere once those who read its output are gone.

    Without it a run whose Prefect worker is killed would end, hours later, at the next line that it prints. Files and
    terminals are left alone until they are gone, and what was started before keeps what it has.
    """
    threading.Thread(target=_watch, name="readers", daemon=True).start()


def _watch() -> None:
    told, left = select.poll(), {1, 2}
    for descriptor in left:
        told.register(descriptor, 0)  # of what nobody reads poll always tells
    while left:
        for descriptor, _ in told.poll():
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
            told.unregister(descriptor)
            left.discard(descriptor)
