"""`graft retrain --minutes N`: the problems, rounds and completions of a run that takes N minutes on this machine.

The seconds of each stage were measured on one machine, in runs of the default from 120 to 3,215 problems
(docs/results/2026-11-27-benchmarks.md, section Minutes). Here they are multiplied by how much longer a training step
takes than it took there.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.supervised import FEWEST_STEPS, PASSES, TrainingExample, train_supervised
from tasks.bootstrap.task import BATCH
from tasks.errors import GraftError
from tasks.params.params import Params
from tasks.select.reward_audit import AUDITED

REFERENCE_STEP = 0.165
"""Seconds of a step of the bootstrap where the seconds of `run_seconds` were measured."""

FEWEST, MOST = 60, 1_000_000
"""Train problems; fewer teach a policy from scratch nothing."""

MOST_ROUNDS = 12
"""Beyond them more minutes add problems alone."""

WARM_UP_STEPS, TIMED_STEPS = 3, 12
"""Training steps before `time_step` measures, and of its measurement."""

PROMPT, COMPLETION = 62, 28
"""Tokens of the longest row in a batch of the default's bootstrap."""


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
    names = {assignment.partition("=")[0] for assignment in run_size(FEWEST).assignments}
    if twice := [assignment for assignment in assignments if assignment.partition("=")[0].strip() in names]:
        raise GraftError(f"--minutes sets {', '.join(sorted(names))}; leave out {twice[0]}")
    step_seconds = time_step(params)
    size = size_for(minutes, params, step_seconds)
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
    """The seconds that a run takes, everything computed: a constant for starts, and for each stage what its work takes.

    Search and update grow more slowly where there are many problems: more rows share a batch, and the better policy
    writes equal completions more often, which are computed once, and groups without a failure, which teach nothing.
    """
    problems, simulations = size.problems, size.simulations / 16
    updated = params.update.epochs / 6 * params.update.group_size / 12
    batches, epochs = -(-problems // BATCH), params.bootstrap.epochs
    # not `epochs_for`, whose whole passes make fewer steps of 289 problems than of 288: seconds never fall here
    steps = max(PASSES * batches, FEWEST_STEPS) if epochs == "auto" else epochs * batches
    search = min(3.1 + 0.0243 * problems * simulations, 8.5 + 0.011 * problems * simulations)
    learnt = problems + AUDITED * (params.influence.selection == "audit" and params.influence.train_on_validation)
    update = min(0.047 * learnt, 32) * updated
    one_round = search + update + 4.3 + 0.0038 * problems
    evaluate = 2 * (1.6 + 0.025 * params.problems.test * params.evaluation.samples / 20)
    seconds = 19 + 0.14 * steps + size.rounds * one_round + evaluate
    return seconds * step_seconds / REFERENCE_STEP


def size_for(minutes: float, params: Params, step_seconds: float) -> RunSize:
    """The largest run that takes no more than `minutes`. Raises GraftError if the smallest one takes more."""

    def seconds(problems: int) -> float:
        return run_seconds(run_size(problems), params, step_seconds)

    if not seconds(FEWEST) <= 60 * minutes:  # `not`: a NaN is neither
        least = seconds(FEWEST) / 60
        raise GraftError(f"--minutes {minutes:g}: the smallest run takes {least:.1f} on this machine; name more")
    sizes = range(FEWEST, MOST + 1)
    return run_size(sizes[bisect_right(sizes, 60 * minutes, key=seconds) - 1])


def _check_known(params: Params) -> None:
    """Raise GraftError unless the seconds of a run with these params are known."""
    known = {
        "environment": (params.environment.name, "workflow"),
        "algorithm": (params.algorithm, "grpo"),
        "problems.source": (params.problems.source, "environment"),
        "policy.base": (params.policy.base, "scratch"),
        "influence.selection": (params.influence.selection, "audit"),
    }
    for name, (value, expected) in known.items():
        if value != expected:
            raise GraftError(
                f"--minutes: how long a run takes is known for {name}: {expected} only, not for {value}; time a small "
                "one, for instance with -S problems.train=16 --rounds 1, then set problems.train and --rounds"
            )


class _Tokens:
    """The part of a tokenizer that `build_scratch_model` reads."""

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
        size = (steps * BATCH, PROMPT + COMPLETION)
        rows = torch.randint(bootstrap.vocabulary, size, generator=generator).tolist()
        examples = [TrainingExample(row[:PROMPT], row[PROMPT:]) for row in rows]
        started = perf_counter()
        train_supervised(model, examples, 1, bootstrap.learning_rate, BATCH, pad=0, seed=0)
        return (perf_counter() - started) / steps

    train(WARM_UP_STEPS)
    return train(TIMED_STEPS)
