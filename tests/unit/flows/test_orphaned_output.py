"""Output without a reader: real processes whose reader exits."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, subprocess, sys, time
from pathlib import Path
from flows.process.signals import outlive_readers
{begin}
print("begun", flush=True)
sys.stdin.read()  # until the readers are gone
end = time.monotonic() + {patience}
while {{os.readlink(f"/proc/self/fd/{{d}}") for d in (1, 2)}} != {{os.devnull}} and time.monotonic() < end:
    time.sleep(0.01)  # both: one after the other loses its reader
for line in range(1000):
    print(line, "and so on" * 100, flush=True)
    print(line, file=sys.stderr, flush=True)
subprocess.run([sys.executable, "-c", "print(1, flush=True)"], check=True)
Path(sys.argv[1]).write_text("done")
"""


def run(begin: str, patience: float, note: Path) -> int:
    """The exit code of the program above; its readers exit when it has begun."""
    command = [sys.executable, "-c", PROGRAM.format(begin=begin, patience=patience), str(note)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, **pipes)  # type: ignore[call-overload]
    assert process.stdout.readline() == b"begun\n"
    for pipe in (process.stdout, process.stderr, process.stdin):
        pipe.close()
    return process.wait(60)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks at /proc")
def test_a_process_outlives_the_readers_of_its_output(tmp_path: Path) -> None:
    """Without `outlive_readers`, the first line that is not read ends it."""
    assert run("outlive_readers()", 30, tmp_path / "note") == 0
    assert (tmp_path / "note").read_text() == "done"
    assert run("", 0.1, tmp_path / "other") != 0
    assert not (tmp_path / "other").exists()
