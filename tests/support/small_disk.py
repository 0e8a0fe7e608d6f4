"""A disk of its own for a test: small enough to be filled, or read-only. Linux, where mounting is permitted."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

BLOCKS = (1 << 20, 4096, 1)


def mount(*arguments: str) -> None:
    """Skips the test where it may not be done."""
    if not shutil.which("mount"):
        pytest.skip("no mount here")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")


@contextmanager
def mounted(folder: Path, *arguments: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    mount(*arguments, str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Ballast:
    """A file that takes the room of a disk."""

    def __init__(self, disk: Path) -> None:
        self._file = disk / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Take all room but `leave` bytes."""
        with self._file.open("ab", buffering=0) as stream:
            for size in BLOCKS:
                while _fits(stream, bytes(size)):
                    pass
            os.truncate(self._file, max(stream.tell() - leave, 0))

    def drop(self) -> None:
        self._file.unlink()


def _fits(stream: IO[bytes], content: bytes) -> bool:
    try:
        stream.write(content)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True
