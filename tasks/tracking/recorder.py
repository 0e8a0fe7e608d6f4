"""Record a run by messages to a separate process, so that its tracker can neither stop nor slow it.

    run ── stage() ──► queue ──► pipe ──► tasks.tracking.worker ──► tracker

`Recorder` reads the small files of a finished stage and sends them; it neither imports MLflow nor waits for the tracker
before the end of the run. A cached stage is recorded from its files like any other, so each run is complete.
"""

import getpass
import json
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tasks.artifacts import read_json
from tasks.core.child_process import kill_tree, last_line
from tasks.core.metrics_files import flatten, read_metrics, read_numbers, read_table
from tasks.core.sqlite import report_upgrade, schema_revision
from tasks.core.terminal import print_warning
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import Params, dump_stage_params
from tasks.records.promotion import Champion, Promotion
from tasks.records.record import Record
from tasks.tracking.server import run_address, server_address
from tasks.tracking.store import database_of
from tasks.tracking.tags import COMMIT, LOCK, SOURCE, USER, lock_digest
from tasks.tracking.worker_process import REMEDY, SECONDS, start_worker


class WorkerAnswer(Record):
    """The answer of the tracker's process at its end."""

    run_id: str | None = None  # None: the tracker did not accept the run
    experiment_id: str = ""
    errors: tuple[str, ...] = ()


class Recorder:
    """One parent run for a run of the chain, and a child for each stage and round."""

    def __init__(self, layout: Layout, params: Params, tags: dict[str, str]) -> None:
        """Start the process that talks to the tracker; with `machine.tracking.uri` empty there is none.

        `tags` are put on the parent run, with the git commit and the digest of dvc.lock.
        """
        self._layout, self._params = layout, params
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self._answer = WorkerAnswer()
        self._database = database_of(layout.root, params.machine.tracking.store)
        self._schema = schema_revision(self._database)
        if not params.machine.tracking.uri:
            return
        try:
            self._process, self._log = start_worker(layout.root, params.machine.tracking)
        except OSError as error:
            self._warn(f"its process did not start ({error})")
            return
        threading.Thread(target=self._hand_over, args=(self._process,), daemon=True).start()
        self._messages.put(
            {
                "kind": "start",
                "time": time.time(),
                "ks": params.evaluation.ks,
                "params": flatten(dump_stage_params(params)),
                "tags": {**source_tags(layout.root), **git_tags(layout.root), **tags},
            }
        )

    def follow_steps(self, stage_id: str) -> None:
        """Record the steps of an update while it runs: called before a stage is computed. Returns at once."""
        if stage_id.startswith("update@"):
            path = self._layout.live_steps(stage_id)
            with suppress(OSError):
                path.unlink()  # left by an update that was killed
            about = {"stage_id": stage_id, "path": self._relative(path), "time": time.time()}
            self._messages.put({"kind": "rows", **about})

    def stage(self, stage_id: str, seconds: float, cached: bool, deps: dict[str, str], outs: dict[str, str]) -> None:
        """Record a stage that is done. `deps` and `outs` map paths to their md5 in dvc.lock. Returns at once."""
        if self._process is None:
            return
        message: dict[str, Any] = {
            "kind": "stage",
            "stage_id": stage_id,
            "seconds": seconds,
            "cached": cached,
            "deps": deps,
            "outs": outs,
            "time": time.time(),
        }
        with self._left_out_if_unreadable(f"numbers of {stage_id}"):
            message["metrics"] = read_metrics(self._layout, stage_id)
            if not cached and self._layout.speed(stage_id).exists():
                message["metrics"] |= read_numbers(self._layout.speed(stage_id), stage_id)
            if stage_id == "promote":
                message["model"] = self._model(deps)
                message["headline"] = read_numbers(self._layout.headline, stage_id)
        self._messages.put(message)
        if stage_id == "promote":
            with self._left_out_if_unreadable("the champion"):  # the present one: the run's decision may be cached
                self._messages.put(champion_message(self._layout, message["time"]))
        for path in outs:
            steps = path.endswith(".csv") and stage_id.startswith("update@")
            if path.endswith((".svg", ".csv")) and not steps:  # a message of its own: the numbers are taken anyway
                self._file(path, Path(path).parent.as_posix().removeprefix("run/"))
            if steps and not cached:  # tens of thousands of points: the run that computed them has them
                self._steps(stage_id, message["time"], path)

    def files(self, *paths: Path) -> None:
        """Add files to the parent run as artifacts. Returns at once."""
        for path in paths:
            self._file(self._relative(path), None)

    def close(self, status: Literal["FINISHED", "FAILED"], **more: str) -> None:
        """End the run; `more` are tags. Returns at once."""
        lock = self._layout.root / "dvc.lock"
        tags = {LOCK: lock_digest(lock.read_bytes())} if lock.is_file() else {}
        self._messages.put({"kind": "finish", "status": status, "time": time.time(), "tags": {**tags, **more}})
        self._messages.put(None)
        self._closed = True

    def wait(self) -> str | None:
        """The id of the closed run, once the tracker has all of it; None if it did not accept the run.

        Waits at most SECONDS; after that the recording is abandoned, with a warning.
        """
        if self._process is not None and self._closed:
            process, self._process = self._process, None  # it is asked once
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                kill_tree(process)
                self._warn(f"no answer within {SECONDS} s; {REMEDY}")
            else:
                self._answer = self._read_answer(process)
                report_upgrade(self._database, self._schema)
        return self._answer.run_id

    def finish(self, status: Literal["FINISHED", "FAILED"], **more: str) -> str | None:
        """Close the run and wait until the tracker has all of it."""
        self.close(status, **more)
        return self.wait()

    def links(self, page: Path) -> dict[str, str]:
        """Text → URL of the closed run, and of the `page` among its files, without user and password; waits until it is
        recorded. Empty if the tracker has no pages on a server, or did not accept the run."""
        server = server_address(self._params.machine.tracking.store)
        run_id = self.wait() if server else None
        if not run_id:
            return {}
        files = {"page": page.name, f"{self._params.machine.tracking.title} run": ""}
        return {text: run_address(server, self._answer.experiment_id, run_id, file) for text, file in files.items()}

    def _file(self, path: str, folder: str | None) -> None:
        self._messages.put({"kind": "file", "path": path, "folder": folder, "time": time.time()})

    def _steps(self, stage_id: str, time: float, path: str) -> None:
        """A table with one row per step of a stage."""
        with self._left_out_if_unreadable(f"steps of {stage_id}, {path},"):
            rows = read_table(self._layout.root / path)
            self._messages.put({"kind": "steps", "stage_id": stage_id, "rows": rows, "time": time})

    def _relative(self, path: Path) -> str:
        """The path for the worker, which runs in the project folder."""
        return path.relative_to(self._layout.root).as_posix()

    def _hand_over(self, process: "subprocess.Popen[str]") -> None:
        """Runs in a thread: the pipe to a worker that hangs fills up, and only this thread may wait for that."""
        assert process.stdin is not None
        try:
            with process.stdin as pipe:
                while (message := self._messages.get()) is not None:
                    pipe.write(json.dumps(message) + "\n")
                    pipe.flush()
        except BrokenPipeError:
            return  # the worker has ended; wait() reports it

    def _read_answer(self, process: "subprocess.Popen[str]") -> WorkerAnswer:
        assert process.stdout is not None
        with process.stdout as pipe, self._log as log:
            answer = _parse_answer(process.returncode, pipe.read(), log)
        if answer.errors:
            self._warn(answer.errors[0])
        return answer

    def _model(self, deps: dict[str, str]) -> dict[str, Any]:
        """The run's policy, for the registry."""
        decision = read_json(self._layout.promotion, Promotion)
        path = self._relative(self._layout.run_policy)
        about = {"decision": decision.reason, "path": path, "dvc_md5": deps.get(path, "")}
        return {"version": decision.version, "tags": {"version": decision.version, **about}}

    @contextmanager
    def _left_out_if_unreadable(self, what: str) -> Iterator[None]:
        """Warn, and go on, if a file that the block reads is missing or damaged."""
        try:
            yield
        except (GraftError, OSError, ValueError, TypeError) as error:
            self._warn(f"{what} left out ({error})")

    def _warn(self, problem: str) -> None:
        print_warning(
            f"{self._params.machine.tracking.place}: {problem}. The results under "
            f"{self._layout.root / 'run'} are complete: run again after that, nothing is computed twice."
        )


def update_registry(layout: Layout, params: Params) -> str | None:
    """Update the registry to the present champion and challenger; returns the error in words, None on success.

    Waits at most SECONDS. With `machine.tracking.uri` empty there is no registry.
    """
    tracking = params.machine.tracking
    if not tracking.uri:
        return None
    message = json.dumps(champion_message(layout, time.time())) + "\n"
    process, log = start_worker(layout.root, tracking)
    assert process.stdout is not None
    with log, process.stdout:
        try:
            text, _ = process.communicate(message, SECONDS)
        except subprocess.TimeoutExpired:
            kill_tree(process)
            return f"no answer within {SECONDS} s"
        return next(iter(_parse_answer(process.returncode, text, log).errors), None)


def champion_message(layout: Layout, time: float) -> dict[str, Any]:
    """The versions of the champion and of a challenger, if there are any. Raises GraftError if one is damaged."""
    champion, challenger = (
        read_json(record, Champion).version if (record := folder / "champion.json").exists() else None
        for folder in (layout.champion, layout.challenger)
    )
    return {"kind": "champion", "champion": champion, "challenger": challenger, "time": time}


def _parse_answer(code: int, text: str, log: Any) -> WorkerAnswer:
    """The worker's answer, or the reason why there is none."""
    if code:
        log.seek(0)
        return WorkerAnswer(errors=(f"its process ended with {code} ({last_line(log.read())}); {REMEDY}",))
    try:
        return WorkerAnswer.model_validate_json(text)
    except ValidationError as error:
        why = error.errors(include_url=False)[0]["msg"]
        return WorkerAnswer(errors=(f"its process gave no answer ({why})",))


def git_tags(root: Path) -> dict[str, str]:
    """The checked-out commit, and whether files differ from it; empty outside a repository."""
    try:
        commit, changes = (
            subprocess.run(
                ["git", *arguments], cwd=root, capture_output=True, encoding="utf-8", errors="replace", check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {COMMIT: commit, "git_dirty": json.dumps(bool(changes))}


def source_tags(root: Path) -> dict[str, str]:
    """Who ran which project."""
    tags = {SOURCE: root.resolve().name}
    with suppress(OSError, KeyError):  # a container's user may have no name
        tags[USER] = getpass.getuser()
    return tags
