"""MLflow, seen from the run: messages to a process of its own, so that MLflow can never stop or slow training.

    run ── stage() ──► queue ──► pipe ──► tasks.tracking_worker ──► MLflow

`Recorder` reads the small files that a finished stage left and hands them over; it neither imports MLflow nor waits
for it before the end of the run. A cached stage is recorded from its files like any other, so a run where nothing
was computed is as complete as the first.
"""

import csv
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from tasks.artifacts import read_json, read_jsonl
from tasks.errors import GraftError
from tasks.extremes import Extremes, extremes
from tasks.layout import Layout
from tasks.params import Params
from tasks.records import Champion, Promotion, RewardedTrajectory, Selected

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # MLflow's own default keeps a dead server's caller for minutes
}


class Recorder:
    """One parent MLflow run for a retraining, and a child for each stage and round."""

    def __init__(self, layout: Layout, params: Params, tags: dict[str, str]) -> None:
        """Start the process that talks to MLflow; with `tracking.uri` empty there is none and nothing is recorded.

        `tags` go on the parent run, beside the git commit and the digest of dvc.lock.
        """
        self._layout, self._params = layout, params
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None
        if not params.tracking.uri:
            return
        try:
            self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 (closed in _answer)
            self._process = _start_worker(layout.root, params.tracking.seconds, self._log)
        except OSError as error:
            self._warn(f"its process did not start ({error})")
            return
        threading.Thread(target=self._hand_over, args=(self._process,), daemon=True).start()
        self._messages.put(
            {
                "kind": "start",
                "uri": params.tracking.uri,
                "experiment": params.tracking.experiment,
                "time": time.time(),
                "params": flatten(params.model_dump(exclude={"tracking"})),
                "tags": {**git_tags(layout.root), **tags},
            }
        )

    def stage(self, address: str, seconds: float, cached: bool, deps: dict[str, str], outs: dict[str, str]) -> None:
        """Record a stage that is done. `deps` and `outs` map paths to their md5 in dvc.lock. Returns at once."""
        if self._process is None:
            return
        message: dict[str, Any] = {
            "kind": "stage",
            "address": address,
            "seconds": seconds,
            "cached": cached,
            "deps": deps,
            "outs": outs,
            "time": time.time(),
        }
        try:
            message["metrics"] = read_metrics(self._layout, address)
            if not cached and self._layout.speed(address).exists():
                message["metrics"] |= read_numbers(self._layout.speed(address), address)
            if address == "promote":
                message["model"] = self._model(deps)
        except GraftError as error:
            self._warn(f"numbers of {address} left out ({error})")
        self._messages.put(message)
        for path in outs:
            steps = path.endswith(".csv") and address.startswith("update@")
            if path.endswith((".svg", ".csv")) and not steps:  # a message of its own: the numbers are taken anyway
                self._file(path, Path(path).parent.as_posix().removeprefix("run/"))
            if steps:
                self._steps(address, path, message["time"])
            if path.endswith("/selection.jsonl"):
                self._influence(address, message["time"])

    def files(self, *paths: Path) -> None:
        """Lay files of the whole run beside it. Returns at once."""
        for path in paths:
            self._file(path.relative_to(self._layout.root).as_posix(), None)

    def finish(self, status: Literal["FINISHED", "FAILED"]) -> str | None:
        """Close the run and give its MLflow id.

        Waits at most `tracking.seconds`; a run that MLflow has not taken by then is left, with a warning.
        """
        if self._process is None:
            return None
        lock = self._layout.root / "dvc.lock"
        tags = {"dvc_lock_md5": hashlib.md5(lock.read_bytes()).hexdigest()} if lock.is_file() else {}
        self._messages.put({"kind": "finish", "status": status, "time": time.time(), "tags": tags})
        self._messages.put(None)
        try:
            self._process.wait(self._params.tracking.seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._warn(f"no answer within {self._params.tracking.seconds:g} s")
            return None
        return self._answer(self._process)

    def _file(self, path: str, folder: str | None) -> None:
        if self._process is not None:
            self._messages.put({"kind": "file", "path": path, "folder": folder, "time": time.time()})

    def _steps(self, address: str, path: str, time: float) -> None:
        """A table with a line for each step of a stage."""
        try:
            rows = read_table(self._layout.root / path)
        except (OSError, ValueError, TypeError) as error:
            self._warn(f"steps of {address} left out ({path}: {error})")
            return
        self._messages.put({"kind": "steps", "address": address, "rows": rows, "time": time})

    def _influence(self, address: str, time: float) -> None:
        """The workflows of most and least influence and its histogram, as tables; none where it was not measured."""
        try:
            found = read_extremes(self._layout, int(address.partition("@")[2]))
        except GraftError as error:
            self._warn(f"influence of {address} left out ({error})")
            return
        if found is None:
            return
        tables = {
            "influence.json": [asdict(row) for row in (*found.most, *found.least)],
            "influence_histogram.json": [row._asdict() for row in found.histogram],
        }
        self._messages.put({"kind": "tables", "address": address, "tables": tables, "time": time})

    def _hand_over(self, process: "subprocess.Popen[str]") -> None:
        """Runs in a thread: a worker that hangs fills its pipe, and nobody but this thread may wait for that."""
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                while (message := self._messages.get()) is not None:
                    pipe.write(json.dumps(message) + "\n")
                    pipe.flush()
        except BrokenPipeError:
            return  # the worker has ended; finish() says so

    def _answer(self, process: "subprocess.Popen[str]") -> str | None:
        assert process.stdout is not None
        with process.stdout as pipe, self._log as log:
            text = pipe.read()
            log.seek(0)
            last_words = " ".join(log.read().strip().splitlines()[-1:])
        if process.returncode:
            self._warn(f"its process ended with {process.returncode} ({last_words})")
            return None
        answer = json.loads(text)
        if answer["errors"]:
            self._warn(answer["errors"][0])
        run_id: str | None = answer["run_id"]
        return run_id

    def _model(self, deps: dict[str, str]) -> dict[str, Any]:
        """What the registry is told of the run's policy."""
        decision = read_json(self._layout.promotion, Promotion)
        record = self._layout.champion / "champion.json"
        champion = read_json(record, Champion).version if record.exists() else None
        folder = self._layout.run_policy
        relative = folder.relative_to(self._layout.root).as_posix()
        return {
            "version": decision.version,
            "champion": decision.version == champion,  # not `promoted`: that decision may be old, from the cache
            "tags": {
                "version": decision.version,
                "decision": decision.reason,
                "path": relative,
                "dvc_md5": deps.get(relative, ""),
            },
        }

    def _warn(self, problem: str) -> None:
        uri = re.sub(r"//[^/@]*@", "//", self._params.tracking.uri)  # no password on the screen
        print(
            f"warning: MLflow ({uri}): {problem}; the results under {self._layout.root / 'run'} are whole. "
            "Mend tracking.uri or start the server, then run again: nothing is computed twice.",
            file=sys.stderr,
        )


def read_metrics(layout: Layout, address: str) -> dict[str, float]:
    """The numbers of a stage by its address (`search@1`). Raises GraftError where the file is not such numbers."""
    return read_numbers(layout.metrics(address), address)


def read_numbers(path: Path, address: str) -> dict[str, float]:
    """A file of numbers by name. Raises GraftError that says which stage writes it."""
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in numbers.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise GraftError(f"{path}: no metrics ({error}); run graft stage {address}") from None


def read_extremes(layout: Layout, round: int) -> Extremes | None:
    """What is told of a round's influence; None where it was not measured. Raises GraftError that names the file."""
    path, rewarded = layout.selection(round), layout.rewarded(round)
    lines = read_jsonl(path, Selected)
    if all(line.influence is None for line in lines):
        return None
    trajectories = [t for t in read_jsonl(rewarded, RewardedTrajectory) if t.split == "train"]
    try:
        return extremes(lines, trajectories)
    except (KeyError, ValueError) as error:
        raise GraftError(f"{path}: not of {rewarded} ({error}); run graft stage select@{round}") from None


def read_table(path: Path) -> list[dict[str, float]]:
    """A csv file of numbers, a dict for each line by the names in the first. Raises ValueError where it is not such."""
    with path.open(encoding="utf-8", newline="") as lines:
        return [{name: float(value) for name, value in line.items()} for line in csv.DictReader(lines)]


def flatten(params: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested params by their dotted names, values as text."""
    flat: dict[str, str] = {}
    for name, value in params.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value if isinstance(value, str) else json.dumps(value)
    return flat


def git_tags(root: Path) -> dict[str, str]:
    """The commit that is checked out and whether files differ from it; nothing outside a repository."""
    try:
        commit, changes = (
            subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {"git_commit": commit, "git_dirty": json.dumps(bool(changes))}


def _start_worker(root: Path, seconds: float, log: Any) -> "subprocess.Popen[str]":
    """The worker in the project folder, where a relative sqlite store and MLflow's own folders belong.

    Away from the terminal's process group, so that Ctrl-C ends the run and the worker can still record that.
    """
    code = str(Path(__file__).resolve().parents[1])
    paths = [code, os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [code]
    defaults = {**ENVIRONMENT, "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, round(seconds)))}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tasks.tracking_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        encoding="utf-8",
        cwd=root,
        env={**defaults, **os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
