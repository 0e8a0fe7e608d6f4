"""A clock that the benchmark sets, for all processes that are started with its environment."""

import shutil
import struct
import subprocess
import time
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from tasks.errors import GraftError

SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The time of day of a process tree."""

    def __init__(self, folder: Path, zone: ZoneInfo) -> None:
        """Raises GraftError without a C compiler."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise GraftError("benchmarks.nights: needs a C compiler for its clock; install gcc")
        self._zone, self._file, library = zone, folder / "clock", folder / "clock.so"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
        self._offset = 0
        self._file.write_bytes(struct.pack("q", 0))
        self.environment = {"LD_PRELOAD": str(library), "NIGHTS_CLOCK": str(self._file), "TZ": zone.key}

    def now(self) -> datetime:
        """The time that these processes see."""
        return datetime.fromtimestamp(time.time() + self._offset, self._zone)

    def set(self, when: datetime) -> None:
        """Set the time; it goes on from there."""
        self._offset = round(when.timestamp() - time.time())
        with self._file.open("r+b") as stream:
            stream.write(struct.pack("q", self._offset))
