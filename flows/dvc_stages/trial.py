"""Seconds expected of a run that has never run here, from a trial on few problems in a temporary folder.

The stages up to reward compute a small first round, from the project's files and params; then the gradient of its
completions is taken once. Seconds are taken as proportional to the problems or completions, with the loading of a model
and the small batches of a trial included, so that a long run is rather overestimated.
"""

import time
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from flows.stages.run import run
from flows.stages.sources import write as write_sources
from tasks.artifacts import write_text
from tasks.environments.lookup import environment_in
from tasks.grpo.compute import update_scorer
from tasks.grpo.gradient import accumulate_gradient
from tasks.grpo.step_plan import UpdateGroup
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.objective.groups import read_groups, samples_in
from tasks.objective.recorded_logprobs import behaviour_logprobs
from tasks.objective.samples import merge_equal_samples
from tasks.params.fields import UNMEASURED
from tasks.params.file import overridden
from tasks.params.params import Params
from tasks.params.sections import Problems
from tasks.records import Split

PREPARATION = ("problems", "coldstart", "bootstrap")
"""Stages that a trial computes with up to PREPARED problems of each split."""

PREPARED = 128

ROUND = ("search", "collect", "reward")
"""Stages that a trial computes with up to SEARCHED problems of each split."""

SEARCHED = 8

WORKSPACE = {"run", ".graft", "params.yaml"}
"""What a trial has of its own; all else in the project's folder is read through links."""


@dataclass(frozen=True)
class Trial:
    """Seconds of each stage of a trial, with the params of its preparation and of its round.

    `gradient`: seconds that the gradient takes for each completion of the train problems, an average over those with a
    signal and those without.
    """

    seconds: dict[str, float]
    prepared: Params
    searched: Params
    gradient: float


def try_run(root: Path, text: str, params: Params) -> Trial:
    """Run a trial; `text`: params.yaml, of which `params` are. The project is not changed.

    Raises GraftError as a run would.
    """
    with TemporaryDirectory(prefix="graft-trial-") as folder, redirect_stderr(StringIO()):  # bars and remarks
        trial = Path(folder)
        for entry in root.iterdir():
            if entry.name not in WORKSPACE:
                (trial / entry.name).symlink_to(entry.resolve())
        prepared = _write_params(trial, text, params.problems, PREPARED)
        write_sources(trial)
        seconds = {stage: _seconds(partial(run, trial, stage)) for stage in PREPARATION}
        searched = _write_params(trial, text, params.problems, SEARCHED)
        run(trial, "problems")
        seconds |= {stage: _seconds(partial(run, trial, f"{stage}@1")) for stage in ROUND}
        return Trial(seconds, prepared, searched, _gradient_seconds(Layout(trial), searched))


def estimate(trial: Trial, params: Params) -> dict[str, float]:
    """Stage → the seconds expected of it with `params`. Nothing is rejected by select."""
    seconds = trial.seconds
    problems = _problems(params) / _problems(trial.prepared)
    of_all = params.policy.base == "scratch" and params.problems.source != "environment"  # else of a fixed number
    train = params.problems.train / trial.prepared.problems.train if of_all else 1.0
    sampled = completions(params) / completions(trial.searched)
    answers = (params.evaluation.samples + 1) * seconds["search"] / completions(trial.searched)
    learned = trained_completions(params) * trial.gradient
    return {
        "problems": seconds["problems"] * problems,
        "coldstart": seconds["coldstart"] * train,
        "bootstrap": seconds["bootstrap"] * train,
        **{stage: seconds[stage] * sampled for stage in ROUND},
        "select": learned if params.influence.selection not in UNMEASURED else 0.0,
        "update": learned * params.grpo.epochs,
        "validate": params.problems.dev * answers,
        "choose": 0.0,
        "evaluate": params.problems.test * answers,
        "promote": 0.0,
    }


def completions(params: Params) -> int:
    """Completions that the search of a round writes."""
    each = max(params.search.simulations, params.grpo.group_size)
    return _searched_problems(params) * each + _validation_completions(params)


def trained_completions(params: Params) -> int:
    """Completions whose gradient a round needs, at most."""
    return _searched_problems(params) * params.grpo.group_size + _validation_completions(params)


def _searched_problems(params: Params) -> int:
    """Train problems of a round, at most."""
    return min(params.problems.train, params.curriculum.problems or params.problems.train)


def _validation_completions(params: Params) -> int:
    own = params.influence
    held_out = own.validation == "held_out" and own.selection not in UNMEASURED
    return min(own.n, params.problems.validation) * own.completions if held_out else 0


def _problems(params: Params) -> int:
    """Problems of all splits."""
    return sum(getattr(params.problems, split) for split in get_args(Split))


def _write_params(trial: Path, text: str, problems: Problems, most: int) -> Params:
    """Write params.yaml for one round with at most `most` problems of each split, and return it."""
    sizes = [f"problems.{split}={min(getattr(problems, split), most)}" for split in get_args(Split)]
    path = trial / "params.yaml"
    small, params, _ = overridden(path, text, [*sizes, "rounds=1"])
    write_text(path, small)
    return params


def _gradient_seconds(layout: Layout, params: Params) -> float:
    """Seconds of the gradient of those with a signal, or of all where none has one, divided by all completions."""
    policy = load_policy(layout.policy(0))
    environment = environment_in(layout.root, params)
    groups = read_groups(policy, environment, layout, 1, ["train"], params.grpo).by_split["train"]
    samples = samples_in(groups)
    learned = merge_equal_samples([s for s in samples if s.advantage] or [replace(s, advantage=1.0) for s in samples])
    scorer = update_scorer(policy, learned, params)
    behaviour = behaviour_logprobs(scorer, learned)
    step = [UpdateGroup("trial", learned, len(learned))]
    alone = params.grpo.model_copy(update={"beta": 0.0})
    return _seconds(partial(accumulate_gradient, scorer, step, behaviour, None, alone)) / len(samples)


def _seconds(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began
