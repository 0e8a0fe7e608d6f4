"""The door of trackers: a class with four methods that records runs, MLflow's or one of the user's."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks.errors import GraftError
from tasks.params.machine import BUILT_IN, Tracking
from tasks.sources.user_code import find_modules_in, new_instance
from tasks.sources.user_modules import check_function_exists

PARAM = "machine.tracking.tracker"

RunStatus = Literal["FINISHED", "FAILED", "KILLED"]


class Metric(NamedTuple):
    """A number of a run."""

    name: str
    value: float
    time: float  # seconds since 1970
    step: int  # the round; of names that begin with `step/`, that of the optimiser


class TrackedRun(NamedTuple):
    """What is known of a run, or of a stage of one, at its start."""

    name: str
    time: float  # seconds since 1970
    parent: str | None = None  # the id of a stage's run
    params: Mapping[str, str] = {}
    tags: Mapping[str, str] = {}
    headline: Sequence[str] = ()  # names of the numbers that a list of runs is to show first


class Tracker(ABC):
    """Where a run is recorded. A separate process makes it and calls it, in the project's folder.

    Any exception is a warning at the end of the run, and the call is made again with the next message.
    """

    experiment_id = ""  # part of the addresses of MLflow's pages

    def __init__(self, uri: str, experiment: str) -> None:
        """The values of `machine.tracking`."""
        self.uri, self.experiment = uri, experiment

    @abstractmethod
    def start(self, run: TrackedRun) -> str:
        """Begin a run; returns its id, which the other methods get."""

    @abstractmethod
    def log(self, run_id: str, tags: Mapping[str, str], points: Sequence[Metric]) -> None:
        """Add tags and numbers to a run, also to one that has ended."""

    @abstractmethod
    def artifact(self, run_id: str, path: str, folder: str | None) -> None:
        """Keep a copy of a file, in this folder of the run's files."""

    @abstractmethod
    def end(self, run_id: str, status: RunStatus, time: float) -> None:
        """End a run."""

    def register(self, run_id: str, model: Mapping[str, Any]) -> None:  # noqa: B027 (a registry is no must)
        """Note the policy of a run in a registry of models, if the tracker has one."""

    def follow(self, champion: str | None, challenger: str | None) -> None:  # noqa: B027
        """Note in the registry which versions are champion and challenger."""


def open_tracker(tracker: str, uri: str, experiment: str) -> Tracker:
    """The tracker of these values of `machine.tracking`. Raises GraftError if the user's own is none."""
    if tracker == BUILT_IN:
        from tasks.tracking.mlflow_tracker import MlflowTracker

        return MlflowTracker(uri, experiment)
    find_modules_in(Path.cwd(), tracker)
    made = new_instance(PARAM, tracker, uri, experiment)
    if not isinstance(made, Tracker):
        raise GraftError(f"{PARAM}: {tracker} is no tracker; let it inherit tasks.tracking.tracker.Tracker")
    return made


def check_tracker(root: Path, tracking: Tracking) -> None:
    """Raise GraftError if the user's module lacks the class, or does not exist. Nothing is imported."""
    if tracking.tracker != BUILT_IN:
        check_function_exists(root, tracking.tracker, PARAM)
