"""`graft retrain --minutes N`: the problems, rounds and completions of a run that takes N minutes on this machine.

The seconds of a stage are those measured where a step of the bootstrap took `REFERENCE_STEP` (docs/benchmarks.md),
times how much longer a step takes here. They are known of the default: stories and a policy from scratch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.supervised import TrainingExample, train_supervised
from tasks.bootstrap.task import BATCH
from tasks.errors import GraftError
from tasks.params.params import Params

REFERENCE_STEP = 0.165
"""Seconds of a step of the bootstrap on the machine where the seconds below were measured."""

FEWEST, MOST = 60, 1_000_000
"""Train problems; fewer teach a policy from scratch nothing."""

MOST_ROUNDS = 12

WARM_UP_STEPS, TIMED_STEPS = 3, 12


@dataclass(frozen=True)
class RunSize:
    """The params of a run that decide how long it takes."""

    problems: int
    rounds: int
    samples: int
    simulations: int

    @property
    def assignments(self) -> list[str]:
        """The params as `-S` takes them."""
        return [
            f"problems.train={self.problems}",
            f"rounds={self.rounds}",
            f"search.samples={self.samples}",
            f"search.simulations={self.simulations}",
        ]


def choose_size(minutes: float, params: Params, assignments: Sequence[str], report: Callable[[str], None]) -> list[str]:
    """The assignments of the run that takes `minutes` on this machine; says what they are.

    Raises GraftError if the seconds of such a run are not known, or `assignments`, which a person made, has one of
    these params.
    """
    _check_known(params)
    step_seconds = time_step(params)
    size = size_for(minutes, params, step_seconds)
    names = {assignment.partition("=")[0] for assignment in size.assignments}
    if twice := [assignment for assignment in assignments if assignment.partition("=")[0].strip() in names]:
        raise GraftError(f"--minutes sets {', '.join(sorted(names))}; leave out {twice[0]}")
    report(
        f"{run_seconds(size, params, step_seconds) / 60:.1f} minutes on this machine: {size.problems} problems, "
        f"{size.rounds} rounds, {size.simulations} completions of each problem in a round"
    )
    return size.assignments


def run_size(problems: int) -> RunSize:
    """Rounds and completions for a number of problems: neither ever falls as problems are added.

    Beyond the default's 340 problems each 80 add a round, up to MOST_ROUNDS: from thousands of problems the bootstrap
    alone learns the stories, and the rounds have nothing left to teach.
    """
    rounds = 2 if problems < 100 else 3 if problems < 180 else min(4 + max(problems - 340, 0) // 80, MOST_ROUNDS)
    samples, simulations = (8, 16) if problems < 1000 else (12, 24)
    return RunSize(problems, rounds, samples, simulations)


def run_seconds(size: RunSize, params: Params, step_seconds: float) -> float:
    """The seconds that a run takes, everything computed.

    Search and update grow more slowly where there are many problems: more rows share a batch, and the better policy
    writes equal completions more often, which are computed once, and groups without a failure, which teach nothing.
    """
    problems, simulations = size.problems, size.simulations / 16
    updated = params.update.epochs / 6 * params.update.group_size / 12
    steps = params.bootstrap.epochs * -(-problems // BATCH)
    search = min(3.1 + 0.0243 * problems * simulations, 8.5 + 0.011 * problems * simulations)
    update = min(0.047 * problems, 32) * updated
    one_round = search + update + 2 + 0.0038 * problems
    evaluate = 2 * (1.6 + 0.025 * params.problems.test * params.evaluation.samples / 20)
    seconds = 19 + 0.14 * steps + size.rounds * one_round + evaluate
    return seconds * step_seconds / REFERENCE_STEP


def size_for(minutes: float, params: Params, step_seconds: float) -> RunSize:
    """The largest run that takes no more than `minutes`. Raises GraftError if the smallest one takes more."""
    fewest, most = FEWEST, MOST
    if (least := run_seconds(run_size(fewest), params, step_seconds)) > 60 * minutes:
        raise GraftError(f"--minutes {minutes:g}: the smallest run takes {least / 60:.1f} on this machine; name more")
    while most - fewest > 1:
        middle = (fewest + most) // 2
        fits = run_seconds(run_size(middle), params, step_seconds) <= 60 * minutes
        fewest, most = (middle, most) if fits else (fewest, middle)
    return run_size(fewest)


def _check_known(params: Params) -> None:
    """Raise GraftError unless the seconds of a run with these params are known."""
    known = {
        "environment": (params.environment.name, "workflow"),
        "problems.source": (params.problems.source, "environment"),
        "policy.base": (params.policy.base, "scratch"),
        "influence.selection": (params.influence.selection, "none"),
    }
    for name, (value, expected) in known.items():
        if value != expected:
            raise GraftError(
                f"--minutes: known of {name}: {expected}, here it is {value}; time a small run, for instance with "
                "-S problems.train=16 --rounds 1, then set problems.train and --rounds"
            )


class _Tokens:
    """As much of a tokenizer as the model from scratch needs."""

    pad_token_id = eos_token_id = 0

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count


def time_step(params: Params) -> float:
    """Seconds of a step of the bootstrap on this machine, now: the mean of `TIMED_STEPS` steps on random tokens."""
    import torch

    bootstrap = params.bootstrap
    model = build_scratch_model(_Tokens(bootstrap.vocabulary), bootstrap.hidden, bootstrap.layers, seed=0)
    generator = torch.Generator().manual_seed(0)

    def train(steps: int) -> float:
        rows = torch.randint(bootstrap.vocabulary, (steps * BATCH, 90), generator=generator).tolist()
        examples = [TrainingExample(row[:62], row[62:]) for row in rows]
        started = perf_counter()
        train_supervised(model, examples, 1, bootstrap.learning_rate, BATCH, pad=0, seed=0)
        return (perf_counter() - started) / steps

    train(WARM_UP_STEPS)
    return train(TIMED_STEPS)
