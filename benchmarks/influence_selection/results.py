"""Results of `benchmarks.selection` in a file: a JSON line a run, so that a repeated command computes what is missing.

A line is reused if its digest is that of the run: of the params that the problems, the first policy and the updates
come from, and of everything in benchmarks/influence_selection that a run depends on. A change of code that changes what
a run computes raises REVISION; a changed default of params.yaml needs nothing.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.influence_selection.reward_corrections import SLOPE
from benchmarks.influence_selection.training_run import (
    EPOCHS,
    LEARNING_RATE,
    TEST,
    TEST_SAMPLES,
    Job,
    RunResult,
)
from benchmarks.influence_selection.variants import COMPLETIONS, STEPS
from benchmarks.influence_selection.weights import GRADALIGN_SHARE
from benchmarks.influence_selection.world import BONUS, FLIPPED, LONG
from tasks.environments.word_problems.word_problems import WordProblemParams
from tasks.errors import GraftError
from tasks.params.params import Params

REVISION = 1
"""Raised with each change of code after which a run gives something else."""

KEYS: dict[str, tuple[str, ...]] = {
    "problems": ("source", "train", "validation", "test", "siblings"),
    "policy": ("base", "max_new_tokens", "lora"),
    "bootstrap": ("hidden", "layers", "vocabulary", "epochs", "learning_rate"),
    "sandbox": ("seconds", "memory_mb"),
    "update": ("micro_batch_tokens", "bf16", "importance", "clip_low", "clip_high", "max_grad_norm"),
}
"""The params of problems, first policy and update that a run reads: a new param changes no digest until it is here."""

REMOVED = {"bootstrap.batch": 16, "update.delta": None}
"""Params that were removed, with the values that the results were computed with."""

STORIES = ("stories", "operations", "phrasings", "unseen_template_share", "enumerated_operations")
"""Those of the environment."""

OWN: dict[str, dict[str, float]] = {"gradalign": {"share": GRADALIGN_SHARE}, "olr": {"slope": SLOPE}}
"""Constants of a rule alone."""


@dataclass(frozen=True)
class Result:
    """A run's metrics, when and where they were computed, and the digest of what they depend on."""

    digest: str
    condition: str
    by_kept: bool
    variant: str
    seed: int
    rounds: int
    problems: int
    metrics: RunResult
    date: str
    machine: str


def digest_of(job: Job, params: Params) -> str:
    """Of everything that determines the run; `params` are the project's."""
    condition: dict[str, Any] = {"name": job.condition}
    if job.condition in FLIPPED:
        condition["share"] = FLIPPED[job.condition]
    if job.condition == "biased":
        condition |= {"long": LONG, "bonus": BONUS}
    if job.variant.rule in (
        "untrained",
        "trusted_alone",
        "majority",
    ):  # learn the same whatever the training rewards are
        own_problems = job.variant.rule == "majority" and job.condition == "answer_only"
        condition = {"problems": "equal quantities"} if own_problems else {}
    dumped, stories = params.model_dump(mode="json"), WordProblemParams(**params.environment.params)
    variant = asdict(job.variant) | OWN.get(job.variant.rule, {})
    variant |= {"adam": False, "exclude_self": True}  # fields that variants had when the results were computed
    if not job.variant.repeated:
        del variant["repeated"]  # results older than this field keep their digest
    given = {
        "revision": REVISION,
        "params": REMOVED
        | {f"{section}.{key}": dumped[section][key] for section, keys in KEYS.items() for key in keys}
        | {f"environment.{key}": getattr(stories, key) for key in STORIES},
        "seed": job.seed,
        "condition": condition,
        "variant": variant,
        "size": [job.rounds, job.problems, COMPLETIONS, STEPS, EPOCHS, LEARNING_RATE, TEST, TEST_SAMPLES],
        "by_kept": job.by_kept,
    }
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:16]


def result_of(job: Job, digest: str, metrics: RunResult) -> Result:
    """A run that has just ended, here."""
    where = f"{platform.machine()}, {os.cpu_count()} cores"
    own = (job.condition, job.by_kept, job.name, job.seed, job.rounds, job.problems)
    return Result(digest, *own, metrics, date.today().isoformat(), where)


def line_of(result: Result) -> str:
    """A line of the file, with its end."""
    return json.dumps(_rounded(asdict(result)), sort_keys=True) + "\n"


def read_results(path: Path) -> dict[str, Result]:
    """Results by digest, of equal digests the last; none where there is no file.

    Raises GraftError where a line is not a result.
    """
    if not path.exists():
        return {}
    found: dict[str, Result] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            fields = json.loads(line)
            result = Result(**fields | {"metrics": RunResult(**fields["metrics"])})
        except (ValueError, TypeError, KeyError) as error:
            raise GraftError(f"{path}, line {number}: not a result ({error}); remove the line") from None
        found[result.digest] = result
    return found


def missing(jobs: Iterable[Job], digests: Sequence[str], known: Iterable[str]) -> list[tuple[Job, str]]:
    """The jobs whose digest is unknown, each digest once, in order."""
    taken = set(known)
    left = []
    for job, digest in zip(jobs, digests, strict=True):
        if digest not in taken:
            taken.add(digest)
            left.append((job, digest))
    return left


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value
