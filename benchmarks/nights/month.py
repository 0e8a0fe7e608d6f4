"""A month of scheduled retraining: what happens in each night of the plan, and what has to come of it."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

import httpx

from benchmarks.nights.clock import Clock
from benchmarks.nights.plan import NIGHTS, Night
from benchmarks.nights.processes import Processes, wait
from benchmarks.nights.project import make_project, write_night
from flows.history.run_history import entries
from tasks.artifacts import read_json
from tasks.promotion_records import Champion
from tests.support.params_file import override
from tests.support.small_disk import Ballast
from tests.support.webhooks import Webhook

ZONE = ZoneInfo("Africa/Casablanca")
"""Its clock goes back an hour at 3:00 on 2026-02-15, before Ramadan, and forward at 2:00 on 2026-03-22, after it."""

FIRST = datetime(2026, 2, 10, 2, 30)

ENDED = ("COMPLETED", "FAILED", "CRASHED")

LINES = {
    "promoted": ". Promoted: ",
    "kept": ". Not promoted: ",
    "waits": "graft promote ",
    "nothing new": "nothing new ",
}
"""By result of a night: a part of the message of its state in Prefect."""


@dataclass
class Figures:
    """Counts over the month."""

    nights: list[str] = field(default_factory=list)  # what each night came to
    right: int = 0
    after_downtime: int = 0  # runs
    double: int = 0  # runs too many
    alerts_missed: int = 0
    alerts_false: int = 0
    alert_seconds: float = 0.0  # the longest from the end of a run to its alert
    lost: int = 0  # nights without their line in the history, or their run in MLflow
    growth: dict[str, float] = field(default_factory=dict)  # MB per night, by place
    seconds: float = 0.0  # from the time of a run to its end, the median of nights without an event
    by_hand: float = 0.0  # of graft retrain with as many new problems


class Month:
    """The processes, the project, and the nights so far."""

    def __init__(self, folder: Path, disk: Path | None, clock: Clock, alerts: Webhook) -> None:
        """The servers' records lie in `folder`, the project on `disk`, if there is one, which can be filled."""
        self.figures, self.clock, self._webhook = Figures(), clock, alerts
        self.clock.set(self._due(0) - timedelta(hours=1))
        self.root, self._folder = (disk or folder) / "project", folder
        self.processes = Processes(folder, self.root, self.clock, alerts.address())
        self._disk = Ballast(disk) if disk else None
        self._durations: list[float] = []
        self._lines: list[str] = []  # of all nights with a run that ended well and MLflow in reach
        make_project(self.root, self.processes.mlflow)

    def run(self, nights: Mapping[int, Night]) -> Figures:
        """The nights by their numbers, one after the other."""
        self.processes.start("prefect", "mlflow")
        self.processes.start("serve")
        begun: dict[str, float] = {}
        try:
            for number, night in nights.items():
                self._night(number, night)
                begun = begun or self._sizes()
            self.figures.growth = {name: (size - begun[name]) / len(nights) for name, size in self._sizes().items()}
            self.figures.lost = self._lost()
            print(self.processes.graft("history", "-n", "40"))
            self.figures.by_hand = self._time_by_hand()
        finally:
            self.processes.kill_all()
        self.figures.seconds = median(self._durations)
        return self.figures

    def _time_by_hand(self) -> float:
        """Seconds of a run that no schedule starts."""
        write_night(self.root, len(NIGHTS) + 14, 40)
        begun = time.monotonic()
        self.processes.graft("retrain", "-S", "policy.base=scratch")
        return time.monotonic() - begun

    def _night(self, number: int, night: Night) -> None:
        """One night, and what is wrong with it."""
        known, champion, due = len(self._webhook.posted), self._champion(), self._due(number)
        self._before(number, night)
        champion = self._champion() if night.event in ("approved", "rolled back") else champion
        if night.event == "power cut":
            self.processes.start("prefect", "mlflow")
            self.processes.start("serve")
        else:
            self.clock.set(due - timedelta(seconds=2))
            self._disturb(night)
        day = (due - timedelta(days=14 if night.event == "power cut" else 0)).date()
        wait(lambda: self._is_over(day), f"the run of {due}")
        runs = [run for run in self._runs(day) if run["state_type"] in ENDED]
        self._after(night)
        wrong = [*self._check_run(night, runs, champion), *self._check_alerts(night, known, runs)]
        event = f", {night.event}" if night.event else ""
        self.figures.nights.append(f"{due:%m-%d %H:%M} {night.result}{event}: {'; '.join(wrong) or 'right'}")
        print(self.figures.nights[-1], flush=True)
        self.figures.right += not wrong
        if night.event == "power cut":
            self.figures.after_downtime = len(runs)

    def _due(self, number: int) -> datetime:
        """The time of a night's run: 2:30, or the time that the clock shows instead."""
        wall = FIRST + timedelta(days=number)
        return datetime.fromtimestamp(wall.replace(tzinfo=ZONE).timestamp(), ZONE)

    def _before(self, number: int, night: Night) -> None:
        """What happens before the run begins."""
        if night.solved is not None:
            write_night(self.root, number, night.solved, night.err, night.event == "other source")
        match night.event:
            case "store away":
                self.processes.kill("mlflow")
            case "disk full" if self._disk:
                self._disk.fill(200_000)
            case "experiment deleted":
                self._experiment("delete")
            case "params broken" | "disk full":
                self._edit("temperature: 1.0 ", "temperature: hot ")
            case "power cut":
                self.processes.kill_all()
                self.clock.set(self._due(number) + timedelta(hours=7))
            case "approval: person" | "approval: auto":
                override(self.root / "params.yaml", [f"promotion.approve={night.event.split()[-1]}"])
            case "approved":
                line = next(line for line in reversed(self._lines) if "graft promote " in line)
                self.processes.graft("promote", line.partition("graft promote ")[2].split()[0])
            case "rolled back":
                self.processes.graft("rollback", "--reason", "rambles")
            case "upgrade":
                self.processes.kill("serve", "prefect", "mlflow")
                self.processes.downgrade()
                stage = self.root / "tasks" / "search" / "task.py"
                stage.write_text(stage.read_text() + "\n# of another version\n")
                self.processes.start("prefect", "mlflow")
                self.processes.start("serve")

    def _disturb(self, night: Night) -> None:
        """What happens while the run works."""
        if night.event not in ("server away", "serve killed", "run killed"):
            return
        note = self.root / ".graft" / "ran.log"
        note.unlink(missing_ok=True)
        wait(lambda: note.exists() and "search@1" in note.read_text(), "search@1")
        if night.event == "server away":
            self.processes.kill("prefect")
            self.processes.start("prefect")
        elif night.event == "serve killed":
            self.processes.kill("serve")
            self.processes.start("serve")
        else:
            self.processes.kill_run()

    def _after(self, night: Night) -> None:
        match night.event:
            case "store away":
                self.processes.start("mlflow")
            case "experiment deleted":
                self._experiment("restore")
            case "disk full" if self._disk:
                self._disk.drop()
            case "params broken" | "disk full":
                self._edit("temperature: hot ", "temperature: 1.0 ")
        self.processes.restart_if_ended("serve")

    def _check_run(self, night: Night, runs: Sequence[dict[str, Any]], champion: str | None) -> list[str]:
        """What is wrong with the runs of a night. `champion`: the version before them."""
        self.figures.double += max(len(runs) - 1, 0)
        if len(runs) != 1:
            return [f"{len(runs)} runs"]
        state, message = runs[0]["state_type"], runs[0]["state"]["message"] or ""
        wanted = {"failed": "FAILED", "killed": "CRASHED"}.get(night.result, "COMPLETED")
        wrong = [] if state == wanted else [f"state {state} ({message})"]
        if LINES.get(night.result, "") not in message:
            wrong.append(f"it says: {message}")
        if (self._champion() != champion) != (night.result == "promoted"):
            wrong.append(f"champion {champion} → {self._champion()}")
        if night.result in ("promoted", "kept", "waits"):
            ended, due = (datetime.fromisoformat(runs[0][name]) for name in ("end_time", "expected_start_time"))
            if night.event is None:
                self._durations.append((ended - due).total_seconds())
            if entries(self.root)[-1].line != message:
                wrong.append(f"its line in the history: {entries(self.root)[-1].line}")
            if night.event not in ("store away", "experiment deleted"):
                self._lines.append(message)
        return wrong

    def _check_alerts(self, night: Night, known: int, runs: Sequence[dict[str, Any]]) -> list[str]:
        """What is wrong with the alerts of a night."""
        wanted = Counter(night.alerts)
        with suppress(TimeoutError):
            wait(lambda: not wanted - Counter(self._alerts(known)), "alerts", 12)
        received = Counter(self._alerts(known))
        missed, false = wanted - received, received - wanted
        self.figures.alerts_missed += missed.total()
        self.figures.alerts_false += false.total()
        if runs and wanted:
            ended = datetime.fromisoformat(runs[-1]["end_time"])
            late = [(post.when - ended).total_seconds() for post in self._webhook.posted[known:]]
            self.figures.alert_seconds = max(self.figures.alert_seconds, *late, 0.0)
        return [*(f"no alert {kind}" for kind in missed), *(f"an alert {kind}" for kind in false)]

    def _alerts(self, known: int) -> list[str]:
        """The kinds of the alerts since the first `known`."""
        return self._webhook.titles()[known:]

    def _runs(self, day: Any) -> list[dict[str, Any]]:
        """The flow runs that are due between a day, in local time, and now."""

        def due(run: dict[str, Any]) -> datetime:
            return datetime.fromisoformat(run["expected_start_time"]).astimezone(ZONE)

        return [run for run in self.processes.flow_runs() if day <= due(run).date() and due(run) <= self.clock.now()]

    def _is_over(self, day: Any) -> bool:
        with suppress(httpx.HTTPError):
            states = [run["state_type"] for run in self._runs(day)]
            return bool(set(states) & set(ENDED)) and set(states) <= {*ENDED, "CANCELLED"}
        return False

    def _champion(self) -> str | None:
        record = self.root / "champion" / "champion.json"
        return read_json(record, Champion).version if record.exists() else None

    def _edit(self, old: str, new: str) -> None:
        """Edit `params.yaml`, as a person does."""
        file = self.root / "params.yaml"
        file.write_text(file.read_text().replace(old, new, 1))

    def _experiment(self, action: str) -> None:
        """Delete or restore MLflow's experiment, as a person does on its page."""
        api = f"{self.processes.mlflow}/api/2.0/mlflow"
        known = httpx.get(f"{api}/experiments/get-by-name", params={"experiment_name": "graft"}).json()["experiment"]
        body = {"experiment_id": known["experiment_id"]}
        httpx.post(f"{api}/experiments/{action}", json=body).raise_for_status()

    def _lost(self) -> int:
        """Lines of nights that the history or MLflow does not have."""
        body = {"experiment_ids": ["1"], "max_results": 1000, "filter": "tags.line != ''"}
        answer = httpx.post(f"{self.processes.mlflow}/api/2.0/mlflow/runs/search", json=body, timeout=60).json()
        tags = [{tag["key"]: tag["value"] for tag in run["data"]["tags"]} for run in answer.get("runs", [])]
        recorded = Counter(own["line"] for own in tags)
        history = Counter(entry.line for entry in entries(self.root))
        return sum(((Counter(self._lines) - recorded) | (Counter(self._lines) - history)).values())

    def _sizes(self) -> dict[str, float]:
        """MB of each place that records are kept in."""
        places = {
            "DVC cache": self.root / ".dvc" / "cache",
            "run and champion": self.root / "run",
            ".graft": self.root / ".graft",
            "MLflow": self._folder / "mlflow.db",
            "MLflow's artifacts": self._folder / "artifacts",
            "Prefect": self._folder / "prefect",
        }
        return {name: size_of(place) / 1e6 for name, place in places.items()}


def size_of(place: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)
