"""Redirect stdout and stderr to /dev/null once their reader is gone, so that a run survives its Prefect worker."""

import os
import select
import threading


def outlive_readers() -> None:
    """Start a thread that does so for this process.

    Without it a run whose Prefect worker was killed ends, hours later, with SIGPIPE at the next line that it prints.
    Regular files and terminals are not affected, nor are processes that were started before.
    """
    threading.Thread(target=_watch, name="readers", daemon=True).start()


def _watch() -> None:
    poll, open_descriptors = select.poll(), {1, 2}
    for descriptor in open_descriptors:
        poll.register(descriptor, 0)  # POLLERR and POLLHUP, a pipe without a reader, are always reported
    while open_descriptors:
        for descriptor, _ in poll.poll():
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)
            poll.unregister(descriptor)
            open_descriptors.discard(descriptor)
