"""What a finished run has to tell: all that `graft compare` and the page show, in one record.

Put together from the files of a run. The run keeps it as `run/account.json`, too, which MLflow gets a copy of: that
one file is enough to compare the run from anywhere, long after its folder is gone.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from flows.stages.dvc_yaml import parse
from tasks.artifacts import digest_path, read_json, read_jsonl, read_text
from tasks.core.metrics_files import flatten, read_metrics, read_table
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.params.params import RUN_ONLY_SECTIONS
from tasks.records import Attempt, Number, Problem, ProblemOutcome, Promotion, Record, Result
from tasks.statistics.influence_extremes import read_influence_extremes

When = Literal["before", "after"]
WHENS: tuple[When, When] = ("before", "after")
STEPS = ("kl", "entropy")  # of the columns that an update writes for each of its steps
MAX_CHARACTERS = 2000  # signs of a text; a model that goes on and on must not make the page unreadable


class GreedyCompletion(Record):
    """The greedy completion of a test problem, and what came of it."""

    completion: str
    outcome: str  # what it returned, or how it ended
    right: bool


class Example(Record):
    """A test problem and its greedy completions."""

    problem_id: str
    question: str
    answer: Number
    before: GreedyCompletion
    after: GreedyCompletion


class Bar(Record):
    """So many samples have low ≤ influence < high."""

    low: float
    high: float
    selected: int
    not_selected: int


class _Measuring(BaseModel):
    """The params that numbers are compared by."""

    seed: Annotated[int, Field(ge=0)]
    ks: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=100)]
    confidence: Annotated[float, Field(ge=0.5, le=0.999)]
    resamples: Annotated[int, Field(ge=100, le=1_000_000)]


def _measuring(params: Mapping[str, str]) -> _Measuring:
    """Raises ValueError where one is missing or out of range."""
    names = {"seed": "seed", **{name: f"evaluation.{name}" for name in ("ks", "confidence", "resamples")}}
    try:
        return _Measuring(**{field: json.loads(params[name]) for field, name in names.items()})
    except (KeyError, RecursionError) as error:
        raise ValueError(f"params: {error} is missing or no value") from None


class _Stage(BaseModel):
    """What is read of a stage in `dvc.lock`; the rest of it is DVC's."""

    params: dict[str, dict[str, Any]] | None = None


class _Lock(BaseModel):
    stages: dict[str, _Stage] | None = None


class RunRecord(Record):
    """A run: `run/account.json`."""

    params: dict[str, str]  # by their dotted names, values as MLflow has them; without those that no stage sees
    rounds: Annotated[int, Field(ge=1, le=999_999)]
    test_sha256: str  # of run/problems/test.jsonl
    decision: str  # the reason that promotion gave
    outcomes: dict[When, list[ProblemOutcome]]
    examples: list[Example]  # all test problems, in the order of their file
    metrics: dict[str, dict[str, float]]  # stage's address → its numbers
    steps: dict[str, dict[str, list[float | None]]]  # round → column → its value at each step; None: not finite
    influence_round: int | None  # the last one in which it was measured
    influence: list[Bar]
    tree: str | None  # picture of a search tree of the last round, SVG

    @model_validator(mode="after")
    def _can_be_compared(self) -> "RunRecord":
        most = max(_measuring(self.params).ks)
        if missing := set(WHENS) - set(self.outcomes):
            raise ValueError(f"outcomes: none {' and '.join(sorted(missing))}")
        for outcome in (outcome for listed in self.outcomes.values() for outcome in listed):
            counts = [outcome.correct, *outcome.wrong]
            if min(counts) < 0 or max(sum(counts), most) > outcome.samples:
                raise ValueError(f"outcomes: the counts of {outcome.problem_id!r} are none of its samples")
        return self

    @property
    def ks(self) -> list[int]:
        """k of pass@k."""
        return _measuring(self.params).ks


def read_run_record(layout: Layout) -> RunRecord:
    """Of the run in a folder. Raises GraftError that says what is missing and how to get it."""
    if not layout.promotion.is_file():
        raise GraftError(f"{layout.root}: no finished run, {layout.promotion} is missing; run graft retrain there")
    params = params_of_run(layout.root)
    rounds = rounds_of(layout.root, params)
    bars = next(
        ((n, found.histogram) for n in range(rounds, 0, -1) if (found := read_influence_extremes(layout, n))), None
    )
    return _account(
        layout,
        params=params,
        rounds=rounds,
        test_sha256=digest_path(layout.problems("test")),
        decision=read_json(layout.promotion, Promotion).reason,
        outcomes={when: read_jsonl(layout.evaluation(when) / "outcomes.jsonl", ProblemOutcome) for when in WHENS},
        examples=_examples(layout),
        metrics={address: read_metrics(layout, address) for address in _addresses(layout, rounds)},
        steps={str(n): _steps(layout.steps(n)) for n in range(1, rounds + 1) if layout.steps(n).is_file()},
        influence_round=bars[0] if bars else None,
        influence=[Bar(**bar._asdict()) for bar in bars[1]] if bars else [],
        tree=read_text(layout.tree(rounds)) if layout.tree(rounds).is_file() else None,
    )


def _account(layout: Layout, **fields: Any) -> RunRecord:
    try:
        return RunRecord(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "its params"
        raise GraftError(f"{layout.root}: {field}: {first['msg']}; run graft retrain there") from None


def rounds_of(root: Path, params: Mapping[str, str]) -> int:
    """How many rounds the run has. Raises GraftError where its params do not say."""
    text = params.get("rounds.last", "")
    if not re.fullmatch("[0-9]{1,6}", text):
        raise GraftError(
            f"{root}: rounds.last is {text!r}, no number of rounds; restore params.yaml and dvc.lock there"
        )
    return int(text)


def params_of_run(root: Path) -> dict[str, str]:
    """The params that the files in `run/` were made with, by their dotted names.

    They are those in `dvc.lock`: params.yaml may have been edited since. It speaks for what no stage depends on, and
    for all where there is no lock. Raises GraftError where stages were made with different values of one param.
    """
    flat = flatten(
        {name: value for name, value in parse(root / "params.yaml").items() if name not in RUN_ONLY_SECTIONS}
    )
    if not (root / "dvc.lock").is_file():
        return flat
    known: dict[str, tuple[str, Any]] = {}
    for address, recorded in _recorded(_locked(root / "dvc.lock")):
        for name, value in recorded.items():
            other, before = known.setdefault(name, (address, value))
            if before != value:
                raise GraftError(
                    f"{root}: run/ is of two settings, {name} is {_short(before)} for {other} and {_short(value)} "
                    f"for {address}; bring it up to date with graft retrain there"
                )
    for name, (_, value) in known.items():
        flat = {key: text for key, text in flat.items() if key != name and not key.startswith(f"{name}.")}
        flat |= flatten({name: value})
    return flat


def _locked(path: Path) -> dict[str, dict[str, Any]]:
    """Address → params of each stage."""
    try:
        lock = _Lock.model_validate(parse(path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise GraftError(f"{path}: {where}: {first['msg']}; restore the file, git checkout dvc.lock") from None
    return {address: (entry.params or {}).get("params.yaml", {}) for address, entry in (lock.stages or {}).items()}


def _recorded(own: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Address and params of each stage of the run; a lock still knows the rounds of earlier, longer runs."""
    last = own.get("choose", {}).get("rounds.last")
    for address, recorded in own.items():
        part = address.partition("@")[2]
        if not part.isdecimal() or not isinstance(last, int) or int(part[:9]) <= last:
            yield address, recorded


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _addresses(layout: Layout, rounds: int) -> list[str]:
    """All that have numbers, but those of rounds that an earlier, longer run left."""
    names = sorted(path.stem for path in layout.metrics("problems").parent.glob("*.json"))
    parts = {name: name.partition("@")[2] for name in names}
    return [name for name, part in parts.items() if not part.isdecimal() or int(part[:9]) <= rounds]


def _steps(path: Path) -> dict[str, list[float | None]]:
    try:
        rows = read_table(path)
    except (OSError, ValueError, TypeError) as error:
        raise GraftError(f"{path}: no table ({error}); run graft stage {path.stem}") from None
    columns = [name for name in STEPS if rows and name in rows[0]]
    return {name: [row[name] if math.isfinite(row[name]) else None for row in rows] for name in columns}


def _examples(layout: Layout) -> list[Example]:
    greedy = {
        when: {a.problem_id: a for a in read_jsonl(layout.evaluation(when) / "attempts.jsonl", Attempt) if a.greedy}
        for when in WHENS
    }
    return [
        Example(
            problem_id=problem.problem_id,
            question=_cut(problem.question),
            answer=problem.answer,
            before=_greedy(greedy["before"][problem.problem_id]),
            after=_greedy(greedy["after"][problem.problem_id]),
        )
        for problem in read_jsonl(layout.problems("test"), Problem)
        if all(problem.problem_id in greedy[when] for when in WHENS)
    ]


def _greedy(attempt: Attempt) -> GreedyCompletion:
    return GreedyCompletion(completion=_cut(attempt.code), outcome=_ended(attempt.result), right=attempt.right)


def _ended(result: Result) -> str:
    if result.status == "ok":
        return f"{result.value:.9g}" if isinstance(result.value, float) else _cut(str(result.value))
    return _cut(f"{result.status}: {result.error}") if result.error else result.status


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: SHOWN - 1]}…"
