"""Short runs: rounds in memory, from problems and a first policy that several runs share.

The rounds are those of `graft retrain` (tasks/round.py); a policy is measured on the test problems as in the
stage `evaluate`. The figures of a run are a line of a results file, by a digest of what differs from the shipped
params, so that what stands there is not computed again.
"""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from flows.stages.dvc_yaml import MODULES
from tasks.artifacts import append_text, digest_text, read_jsonl, read_text
from tasks.environments.lookup import environment_in
from tasks.environments.runner import make_runner
from tasks.errors import GraftError
from tasks.evaluate.evaluation import evaluate_problems
from tasks.layout import Layout
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.params.file import overridden
from tasks.params.params import Params
from tasks.ppo.value_head import zero_head
from tasks.records.problems import Problem
from tasks.reward.metrics import RewardTotals
from tasks.rollout import Setting
from tasks.round import run_round
from tasks.round_start import HeldModels
from tasks.search.draw import draw_problems as draw_some
from tasks.search.draw import draw_train_problems
from tasks.search.policy_search import SplitProblem
from tasks.select.select_samples import ValidationRollout
from tasks.trajectories import RewardedTrajectory
from tests.support.workspace import PROJECT

Figures = dict[str, float]

Run = TypeVar("Run", bound=Hashable)


def params_of(assignments: Sequence[str]) -> Params:
    """The shipped params with some assignments."""
    path = PROJECT / "params.yaml"
    return overridden(path, path.read_text(encoding="utf-8"), assignments)[1]


def start_folder(root: Path, assignments: Sequence[str]) -> Path:
    """Where the start with these params is kept."""
    return root / digest_text(params_of(assignments).model_dump_json())[:8]


def make_start(folder: Path, params: Params) -> None:
    """Problems and the first policy, unless they are there."""
    if folder.exists():
        return
    new = folder.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    for stage in ("problems", "coldstart", "bootstrap"):
        import_module(MODULES[stage]).run(Layout(new), params, None)
    new.rename(folder)


class ShortRun(NamedTuple):
    """The policy after the last round, the metrics of each round by stage, and the CPU seconds of all."""

    policy: Policy
    rounds: list[dict[str, Figures]]
    seconds: float


def compute_rounds(start: Path, params: Params) -> ShortRun:
    """Compute the rounds from a start, which stays as it is."""
    folder, problems = Layout(start).policy(0), read_problems(start, params)
    policy = load_policy(folder)
    reference = load_policy(folder) if params.update.beta > 0 else None
    models = HeldModels(policy, reference, zero_head(policy) if params.algorithm == "ppo" else None)
    rounds, begun = [], time.process_time()
    with setting_of(start, params) as setting:
        for round in range(1, params.rounds.last + 1):
            drawn = draw_problems(params, *problems, round)
            train, validation = ([pair for pair in drawn if pair[0] == split] for split in ("train", "validation"))
            learnt = run_round(setting, models, train, validation, round)
            with RewardTotals(setting.environment) as totals:
                for group in learnt.rewarded:
                    totals.add(group)
                metrics = {"reward": totals.metrics, "select": learnt.selection.metrics}
            rounds.append(metrics | {"update": learnt.update.result.metrics})
    return ShortRun(policy, rounds, time.process_time() - begun)


def sampler_of(held_out: Sequence[RewardedTrajectory]) -> ValidationRollout:
    """A function that gives completions which are there as if it rolled them out."""
    return lambda first, last: held_out[first:last]


@contextmanager
def setting_of(start: Path, params: Params) -> Iterator[Setting]:
    """What completions from a start are run and rewarded with."""
    environment = environment_in(start, params)
    with make_runner(environment, params.sandbox, None) as runner:
        yield Setting(start, params, environment, runner)


def read_problems(start: Path, params: Params) -> tuple[list[Problem], list[Problem]]:
    """The problems of training, and those of validation if influence is measured on them."""
    train, validation = (read_jsonl(Layout(start).problems(split), Problem) for split in ("train", "validation"))
    return train, validation if params.influence.is_held_out else []


def draw_problems(
    params: Params, train: Sequence[Problem], validation: Sequence[Problem], round: int
) -> list[SplitProblem]:
    """Those that the stages search and select draw for a round."""
    chosen = draw_train_problems(train, params.search, params.seed, round)
    return chosen + draw_some(validation, params.influence.n, params.seed, "validation", round)


def evaluate(start: Path, params: Params, policy: Policy | None = None) -> Figures:
    """The metrics of a policy, by default the first, on the test problems of a start."""
    layout = Layout(start)
    problems = read_jsonl(layout.problems("test"), Problem)
    with TemporaryDirectory() as temporary:
        folder = layout.policy(0)
        if policy is not None:
            folder = Path(temporary, "policy")
            save_policy(policy, folder, parent=policy.version, round=params.rounds.last)
        return evaluate_problems(layout, params, folder, problems, "benchmark").metrics


def digest(assignments: Sequence[str], *labels: object) -> str:
    """Names a run in a results file by its params, of which the last assignment counts, and by what else it differs in.

    One label is a revision that is raised with each change of code that changes the figures.
    """
    last = dict(assignment.split("=", 1) for assignment in assignments)
    return hashlib.sha256(f"{labels} {sorted(last.items())}".encode()).hexdigest()[:16]


def read_figures(path: Path, runs: Mapping[str, Run]) -> dict[Run, Figures]:
    """The figures of those runs, by digest, that are in a file. Raises GraftError where a line is no JSON object."""
    found: dict[Run, Figures] = {}
    for number, line in enumerate(read_text(path).splitlines() if path.exists() else [], start=1):
        try:
            kept = json.loads(line)
            name, figures = kept["digest"], kept["figures"]
        except (ValueError, KeyError, TypeError):
            raise GraftError(f"{path}:{number}: no result of a run; delete the line") from None
        if name in runs:
            found[runs[name]] = figures
    return found


def append_figures(path: Path, name: str, figures: Figures, **labels: object) -> None:
    """Add the figures of a run with date and machine."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    line = {**labels, "digest": name, "date": f"{date.today()}", "machine": machine, "figures": figures}
    append_text(path, json.dumps(line) + "\n")
