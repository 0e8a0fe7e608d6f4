"""The contract of problem files: new ones are compared with each other and with what the champion learnt from.

A run checks it before its first stage, if a file differs from those of the last run that succeeded. New problems are
those that the run would use and the last one did not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from flows.history.run_history import inputs_of_last
from tasks.artifacts import stream_jsonl
from tasks.errors import GraftError, one_line
from tasks.known_problems import read_known
from tasks.layout import Layout
from tasks.params.machine import Contract
from tasks.params.params import Params
from tasks.problems.digests import digest_problem_files
from tasks.problems.files import problem_files, problem_text
from tasks.problems.jsonl import make_reader, read_files
from tasks.problems.near_duplicates import near_duplicates
from tasks.problems.splits import split_problems
from tasks.promote.champion import read_profile
from tasks.records.problems import Problem, Split
from tasks.statistics.problem_profile import ProblemProfile, drift, kind_of_problem

LEAST = 100
"""New problems of a file, and problems of the champion, from which drift is measured: fewer differ by chance. Figures:
docs/results/2026-11-28-contract.md."""

NEAR_DUPLICATES = 0.01
"""Most test problems that may nearly repeat one that is learnt from, as a share: GSM8K has up to 0.007."""

UNKNOWN_ANSWERS = 0.1
"""Most answers of new kinds, as a share: a decimal among integers is no other task."""


def check_contract(layout: Layout, params: Params) -> list[str]:
    """A line for each breach by new problem files. Raises GraftError instead if `machine.contract.action` is stop."""
    contract = params.machine.contract
    if contract.action == "none" or params.problems.source != "jsonl":
        return []
    last = inputs_of_last(layout)
    if last and last.problems == digest_problem_files(layout.root, params):
        return []
    breaches = list(map(one_line, _breaches(layout, params)))
    if breaches and contract.action == "stop":
        raise GraftError(f"{'; '.join(breaches)}; correct the files, or run with -S machine.contract.action=warn")
    return breaches


def _breaches(layout: Layout, params: Params) -> Iterator[str]:
    splits = _read_splits(layout, params)
    repeats = near_duplicates(splits["test"], [*splits["train"], *splits["validation"]])
    if len(repeats) > NEAR_DUPLICATES * len(splits["test"]):
        count = f"{len(repeats)} of {len(splits['test'])} test problems nearly repeat one that is learnt from"
        test, other = next(iter(repeats.items()))
        yield f"{params.problems.path}: {count} ({test} repeats {other}); remove one of each two"
    profile = read_profile(layout.champion)
    if profile is None:
        return
    known = _known_ids(layout)
    files = defaultdict[str, list[Problem]](list)
    for problem in (problem for split in splits.values() for problem in split if problem.problem_id not in known):
        files[problem.source].append(problem)
    for name, problems in sorted(files.items()):
        yield from (f"{name}: {breach}" for breach in compare(profile, problems, params.machine.contract))


def compare(profile: ProblemProfile, problems: Sequence[Problem], contract: Contract) -> Iterator[str]:
    """A line for each thing in which new problems differ too much from those of the champion."""
    new = Counter(kind for kind in map(kind_of_problem, problems) if kind not in profile.answers)
    if new.total() > UNKNOWN_ANSWERS * len(problems):
        kinds = ", ".join(sorted(new))
        yield f"{new.total()} of {len(problems)} new answers are of kinds that the champion did not learn: {kinds}"
    if min(len(problems), profile.problems) < LEAST:
        return
    for name, distance in drift(profile, problems)._asdict().items():
        most = getattr(contract, name)
        if distance > most:
            whose = f"{name} of {len(problems)} new questions is {distance:.2f} from what the champion learnt from"
            yield f"{whose}, more than machine.contract.{name} {most:g}"


def _read_splits(layout: Layout, params: Params) -> dict[Split, list[Problem]]:
    """The problems as the stage would split them, each with the path of its file. None is tried out."""
    reader = make_reader(layout.root, params, loads=False)
    files = problem_files(layout.root, params.problems.path).items()
    problems = read_files(((name, problem_text(name, file), name) for name, file in files), reader)
    known = read_known(layout.root / params.policy.base)
    return split_problems(params.problems.path, problems, params.problems, params.seed, known)


def _known_ids(layout: Layout) -> set[str]:
    """The ids of the last run's problems; none of a damaged file, which its stage will write again."""
    known = set[str]()
    for split in ("train", "validation", "test", "dev"):
        with suppress(GraftError):
            known.update(problem.problem_id for problem in stream_jsonl(layout.problems(split), Problem))
    return known
