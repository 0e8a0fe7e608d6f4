"""`graft ladder`: where a run's policy does not move, further runs with params that let an update go further.

A rung is a set of params next to those of the committed run: the ones that the report's remarks name (learning rate,
clip, β), one at a time, then all of them. Each is a DVC experiment, computed in a folder of its own; stages that do not
depend on its params are not computed again. The first rung that moves the policy ends the ladder.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from flows.reports.comparison import Change, change, contrasts, make_sides
from flows.reports.run_lookup import find_run
from flows.reports.run_record import RunRecord
from tasks.errors import GraftError, one_line
from tasks.params.file import load_params
from tasks.params.grpo import Grpo

RATE_FACTOR, CLIP_FACTOR, BETA_DIVISOR = 3, 2, 10

MAX_RATE, MAX_CLIP = 0.1, 10.0
"""Largest values that grpo.learning_rate and grpo.clip_high may have."""

UNCLIPPED = ("sapo", "reinforce")
"""Losses without grpo.clip_high."""

MEASURES = ("pass_at_1", "pass_at_1_greedy")
"""The first that was measured decides: of samples it sees smaller changes."""


class Rung(NamedTuple):
    """Params to try, as `-S` takes them."""

    name: str
    assignments: list[str]


def rungs(grpo: Grpo) -> list[Rung]:
    """The rungs above these params, in order; one that would change nothing is left out."""
    alone = []
    if grpo.learning_rate < MAX_RATE:
        rate = min(RATE_FACTOR * grpo.learning_rate, MAX_RATE)
        alone.append(Rung("learning-rate", [f"grpo.learning_rate={rate:.6g}"]))
    if grpo.loss not in UNCLIPPED and grpo.delta is None and grpo.clip_high < MAX_CLIP:
        alone.append(Rung("clip", [f"grpo.clip_high={min(CLIP_FACTOR * grpo.clip_high, MAX_CLIP):.6g}"]))
    if grpo.beta > 0:
        alone.append(Rung("beta", [f"grpo.beta={grpo.beta / BETA_DIVISOR:.6g}"]))
    together = Rung("together", [assignment for rung in alone for assignment in rung.assignments])
    return [*alone, together] if len(alone) > 1 else alone


def measured_change(record: RunRecord) -> Change:
    """The change from a run's first policy to its last one on the test problems, with its paired interval."""
    (contrast,) = contrasts(make_sides([("run", record)]))
    found = {each.name: each for each in contrast.changes}
    return next(found[name] for name in MEASURES if name in found)


def is_improvement(found: Change) -> bool:
    """Whether the whole interval of the change lies above 0."""
    return found.difference.low > 0


def try_rungs(root: Path, report: Callable[[str], None]) -> str | None:
    """Try the rungs above the last commit's run; the name of the experiment that moves, None if none does.

    An experiment that is there already, of an interrupted ladder for instance, is not run again. Raises GraftError
    where the commit has no complete run, tracked files differ from it, or an experiment fails.
    """
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    if changed:
        raise GraftError(
            f"{changed.splitlines()[0].split(maxsplit=1)[-1]}: differs from the last commit, from which experiments "
            "start; git commit it, dvc.lock of a finished run too"
        )
    commit = _git(root, "rev-parse", "--short=7", "HEAD")
    committed = measured_change(find_run("HEAD", root)[1])
    report(_line("the committed run", [], committed))
    if is_improvement(committed):
        report("The committed run moves the policy: there is nothing to try.")
        return None
    known = _dvc(root, "exp", "list", "--name-only").split()
    for rung in rungs(load_params(root / "params.yaml").grpo):
        name = f"ladder-{rung.name}-{commit}"
        if name not in known:
            settings = [part for assignment in rung.assignments for part in ("-S", assignment)]
            _dvc(root, "exp", "run", "--quiet", "--temp", "--name", name, *settings)
        found = measured_change(find_run(name, root)[1])
        report(_line(name, rung.assignments, found))
        if is_improvement(found):
            report(f"It moves. Take it over with: dvc exp apply {name}; compare it with: graft compare HEAD {name}")
            return name
    report(
        "No rung moves the policy. Look with graft diagnose at its completions; if the learning rate is far too low, "
        "commit a run with a higher one and try again."
    )
    return None


def _line(name: str, assignments: Sequence[str], found: Change) -> str:
    settings = f" ({', '.join(assignments)})" if assignments else ""
    measure = "pass@1 sampled" if found.name == MEASURES[0] else "pass@1 greedy"
    return f"{name}{settings}: {measure} {found.first:.3f} → {found.second:.3f}, {change(found.difference)}"


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        raise GraftError(f"git {arguments[0]}: {one_line(done.stderr)}; DVC's experiments need a git repository")
    return done.stdout.rstrip()


def _dvc(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=root,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise GraftError(f"dvc {' '.join(arguments[:2])}: {one_line(lines[-1])}; fix it and run graft ladder again")
    return done.stdout
