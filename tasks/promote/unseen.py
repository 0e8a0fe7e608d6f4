"""Problems that no gate has seen, on which a policy that has passed the gate is confirmed.

Where the environment writes its problems they are fresh: written for this policy, and none that its lineage knows.
Of a file they are the lines in `run/problems/confirm.jsonl`, which are used for nothing else; `.graft/confirmed.jsonl`
counts the policies for which they were, since with each use a little is known of them.
"""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tasks.artifacts import read_json, read_jsonl, write_jsonl
from tasks.environments.lookup import environment_in
from tasks.errors import GraftError
from tasks.known_problems import KnownProblems, keys_of, read_known, unknown
from tasks.layout import KNOWN, Layout
from tasks.params.params import Params
from tasks.records.problems import Problem
from tasks.records.record import Record

SPARE = 4
"""One in SPARE fresh problems more is asked for, since some may be in a split already."""


class Unseen(NamedTuple):
    """The problems, and the most policies that one of them was used for, with this one. `why`: they are too few."""

    problems: list[Problem]
    fresh: bool
    uses: int = 1
    why: str = ""


class Use(Record):
    """A policy that was confirmed, or was not: a line of `.graft/confirmed.jsonl`."""

    version: str
    champion: str | None  # its opponent
    problems: list[str]


def unseen_problems(layout: Layout, params: Params, version: str, champion: str | None) -> Unseen:
    """Up to `problems.confirm` problems for the policy `version`, whose opponent is `champion`; counts their use."""
    if params.problems.source == "environment":
        return _fresh_problems(layout, params, version)
    learnt = read_known(layout.champion / "policy").learnt  # by a champion of another line
    problems = unknown(read_jsonl(layout.problems("confirm"), Problem), learnt)
    use = Use(version=version, champion=champion, problems=[problem.problem_id for problem in problems])
    return Unseen(problems, fresh=False, uses=count_use(layout.root, use), why=f"{len(problems)} lines are left")


def _fresh_problems(layout: Layout, params: Params, version: str) -> Unseen:
    """Problems of the environment, drawn by the seed of the project and the policy's version, without siblings."""
    count = params.problems.confirm
    sizes = {"test": count + count // SPARE, "train": 1, "validation": 1, "dev": 0, "siblings": 0}
    environment, asked = environment_in(layout.root, params), params.problems.model_copy(update=sizes)
    try:
        written = environment.fresh_problems(asked, params.seed, version)
    except GraftError as error:  # a list that is too short, for instance
        return Unseen([], fresh=True, why=str(error))
    known, dev = read_json(layout.carried(KNOWN), KnownProblems), read_jsonl(layout.problems("dev"), Problem)
    fresh = unknown(written, [*known.learnt, *known.tested, *keys_of(*dev)])
    new = list({problem.question: problem for problem in fresh}.values())[:count]
    named = [problem.model_copy(update={"problem_id": f"confirm-{number:04}"}) for number, problem in enumerate(new)]
    return Unseen(named, fresh=True, why=f"the environment wrote {len(new)} new problems")


def count_use(root: Path, use: Use) -> int:
    """Note the use, unless it is a repeated run's; returns the most uses of one of its problems, with this one."""
    path = root / ".graft" / "confirmed.jsonl"
    before = [each for each in (read_jsonl(path, Use) if path.exists() else []) if each != use]
    write_jsonl(path, [*before, use])
    counts = Counter(name for each in (*before, use) for name in each.problems)
    return max((counts[name] for name in use.problems), default=0)
