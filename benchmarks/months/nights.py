"""Months of real nights: the stages of a small project with new problems each night, as a scheduled run computes them.

Problems are lines of a file, from the fixed stories of the environment `workflow`. A night begins with the policy that
`machine.schedule.start` names and ends with `latest/`; DVC, Prefect and the tracker are left out. What is served is the
champion, or the first policy as long as there is none.
"""

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from flows.alerts.alert import Memory, result_alerts
from flows.history.changes import scheduled_base
from flows.history.run_history import Entry
from flows.stages.dvc_yaml import MODULES, ROUND, round_of, stage_ids, stage_of
from tasks.artifacts import copy_folder, read_json, write_text
from tasks.core.metrics_files import read_metrics
from tasks.environments.word_problems.generate import generate
from tasks.environments.word_problems.problem_writer import WordProblemParams
from tasks.environments.word_problems.template import templates
from tasks.layout import Layout
from tasks.params.file import load_params
from tasks.params.params import Params
from tasks.promote.latest import keep_latest
from tasks.promote.opponent import measure
from tasks.records.problems import Problem
from tasks.records.promotion import Promotion
from tasks.statistics.alarms import training_alarms
from tests.support.params_file import override
from tests.support.workspace import PROJECT

REVISION = 2  # raised with each change after which a month gives something else

LINES, HELD_OUT = 300, 600  # problems of a night's file; problems on which the served policy is measured in the end

SIZES = (
    *("problems.source=jsonl", "problems.train=96", "problems.validation=16", "problems.test=100"),
    *("problems.confirm=80", "problems.siblings=0", "rounds=1", "influence.selection=none", "evaluation.samples=4"),
    *("evaluation.ks=[1, 2]", "search.samples=8", "search.simulations=8", "update.group_size=8", "update.epochs=2"),
    *("update.learning_rate=5e-4", "machine.device=cpu", 'machine.tracking.uri=""', "bootstrap.epochs=16"),
)
"""A night of some ten CPU seconds, which learns a little."""

CHAMPION_ALONE = ("machine.schedule.start=champion", "problems.confirm=0")
"""The rules that nights had before: each starts from the champion, and the gate alone decides."""

ENTRY = Entry(when="", done=True, line="", flow_run="", mlflow_run=None, number=1, name="night", scheduled=True)

STORIES = tuple(template.name for template in templates() if template.operations <= 2)
SOURCES = {"all": STORIES, "even": STORIES[::2], "odd": STORIES[1::2]}
"""Source of problems → the stories that they are of."""


@dataclass(frozen=True)
class Night:
    """A night: the source of its problems, and what it sets."""

    source: str = "all"
    assignments: tuple[str, ...] = ()


@dataclass(frozen=True)
class NightResult:
    """The outcome of a night."""

    alarms: list[str]  # kinds of alerts
    promoted: bool
    seconds: float  # of CPU


class Month:
    """A project in a folder, to which nights are added."""

    def __init__(self, root: Path, seed: int, assignments: Sequence[str], lines: int = LINES) -> None:
        """`lines` of each night's file."""
        self.root, self.seed, self.nights, self._lines, self._memory = root, seed, 0, lines, Memory()
        root.mkdir(parents=True)
        for name in ("params.yaml", "dvc.yaml"):
            shutil.copy(PROJECT / name, root)
        override(root / "params.yaml", [*SIZES, f"seed={seed}", *assignments])

    def add(self, night: Night) -> NightResult:
        """Compute the next night."""
        self.nights += 1
        layout, path = Layout(self.root), self.root / "params.yaml"
        write_lines(self.root / f"{night.source}.jsonl", night.source, self.seed, f"night {self.nights}", self._lines)
        override(path, [*night.assignments, f"problems.path={night.source}.jsonl"])
        override(path, [f"policy.base={scheduled_base(layout, load_params(path))}"])
        params, begun = load_params(path), cpu_seconds()
        shutil.rmtree(self.root / "run", ignore_errors=True)
        shutil.rmtree(self.root / ".graft" / "journal", ignore_errors=True)
        with chdir(self.root):  # the folder that `policy.base` is relative to
            for stage_id in stage_ids(params.rounds.last):
                import_module(MODULES[stage_of(stage_id)]).run(layout, params, round_of(stage_id))
        decision = read_json(layout.promotion, Promotion)
        if params.machine.schedule.start == "latest":
            keep_latest(layout, decision, params.environment.name)
        seconds = cpu_seconds() - begun
        return NightResult(self._alarms(layout, params, decision), decision.promoted, seconds)

    @property
    def first(self) -> Path:
        """The folder of the policy that the first night began with."""
        return self.root / "first"

    @property
    def served(self) -> Path:
        """The folder of the champion, or of the first policy."""
        champion = self.root / "champion" / "policy"
        return champion if champion.exists() else self.first

    @property
    def latest(self) -> Path:
        """The folder of the policy of the last night."""
        return Layout(self.root).run_policy

    def accuracy(self, source: str, policy: Path | None = None) -> float:
        """Share of new problems of a source that the served policy, or another, solves by greedy completions."""
        params, layout = load_params(self.root / "params.yaml"), Layout(self.root)
        with TemporaryDirectory() as folder:
            file = Path(folder, "held-out.jsonl")
            write_lines(file, source, self.seed, "held out", HELD_OUT)
            lines = [json.loads(line) for line in file.read_text().splitlines()]
        problems = [Problem(problem_id=f"held-out-{n}", source=source, **line) for n, line in enumerate(lines)]
        return fmean(measure(layout, params, policy or self.served, problems).right)

    def _alarms(self, layout: Layout, params: Params, decision: Promotion) -> list[str]:
        if not self.first.exists():
            copy_folder(layout.policy(0), self.first)
        names = [f"{stage}@{number}" for number in range(1, params.rounds.last + 1) for stage in ROUND]
        metrics = {name: read_metrics(layout, name) for name in names}
        alarms = training_alarms(metrics, params.rounds.last)
        alerts, self._memory = result_alerts(ENTRY, decision, {}, alarms, self._memory, None)
        return [alert.kind for alert in alerts if not alert.kind.startswith("policy.") or alert.kind in alarms]


def write_lines(file: Path, source: str, seed: int, draw: str, count: int) -> None:
    """Problems of a source, new ones for each `draw`."""
    params = load_params(PROJECT / "params.yaml")
    share = len(STORIES) // len(SOURCES[source])
    none = {"validation": 0, "test": 0, "dev": 0, "siblings": 0}
    sizes = params.problems.model_copy(update=none | {"train": count * share})
    stories = WordProblemParams(stories="fixed", operations=2, phrasings=2, unseen_template_share=0.0)
    written = generate(sizes, stories, seed, draw)["train"]
    lines = ({"question": own.question, "answer": own.answer} for own in written if own.template in SOURCES[source])
    write_text(file, "".join(json.dumps(line) + "\n" for line in islice(lines, count)))


def cpu_seconds() -> float:
    """Of this process and those of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
