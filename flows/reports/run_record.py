"""Record of a finished run: everything that `graft compare` and the HTML page show.

Read from the files of a run, and written to `run/account.json` and the tracker, so that the run can be compared after
its folder is gone.
"""

import json
import math
import re
from collections.abc import Mapping
from operator import not_
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

from flows.reports.baseline_sentences import baseline_sentences
from flows.reports.influence_extremes import EXTREMES, InfluenceExample, influence_extremes
from flows.reports.selection_sentence import selection_sentence
from flows.stages.dvc_yaml import parse
from tasks.artifacts import digest_path, first_problem, read_json, read_jsonl, read_text
from tasks.core.metrics_files import flatten, read_metrics, read_table
from tasks.core.terminal import answer_text, shortened
from tasks.errors import GraftError
from tasks.evaluate.summary import BASE
from tasks.layout import Layout
from tasks.params.params import is_run_only
from tasks.params.sections import MOST_ROUNDS
from tasks.programs.operators.builtin import without_context
from tasks.promote.retention import describe_kept
from tasks.records.evaluation import Attempt, ProblemOutcome
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.records.promotion import Promotion
from tasks.records.record import Number, Record
from tasks.records.selection import REMEDY, RewardAudit, Selected
from tasks.reward.histogram import RewardBin, read_histogram
from tasks.statistics.alarms import training_alarms
from tasks.statistics.influence_histogram import influence_histogram

When = Literal["base", "before", "after"]
WHENS: tuple[When, When] = ("before", "after")
"""Those that every run has; a run with a warm start also measured its base before that."""

STEPS = ("kl", "entropy", "explained_variance")
"""Columns of the table of an update's steps; the last one with algorithm ppo alone."""

MAX_CHARACTERS = 2000
"""Characters of a text; a completion may be much longer."""


SampleCount = Annotated[int, Field(ge=0, le=10**12)]


class GreedyCompletion(Record):
    """The greedy completion of a test problem, and its result."""

    completion: str
    outcome: str  # the value returned, or the status
    right: bool
    picture: str | None = Field(default=None, exclude_if=lambda svg: svg is None)  # SVG, by the environment


class Example(Record):
    """A test problem and its greedy completions."""

    problem_id: str
    question: str
    answer: Number | str
    fields: str = Field(default="", exclude_if=not_)  # the other columns of its line: "level: easy, hops: 2"
    before: GreedyCompletion
    after: GreedyCompletion


class Bar(Record):
    """Numbers of samples with low ≤ influence < high."""

    low: float
    high: float
    selected: SampleCount
    not_selected: SampleCount


class EvaluationParams(BaseModel):
    """The params that a comparison uses."""

    seed: Annotated[int, Field(ge=0)]
    ks: Annotated[list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=1, max_length=100)]


class _Stage(BaseModel):
    """The part of a stage in `dvc.lock` that is read here."""

    params: dict[str, dict[str, Any]] | None = None


class _Lock(BaseModel):
    stages: dict[str, _Stage] | None = None


class RunRecord(Record):
    """A run: `run/account.json`."""

    params: dict[str, str]  # by their dotted names, values as in the tracker; without RUN_ONLY
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    test_sha256: str  # of run/problems/test.jsonl
    decision: str  # the reason that promotion gave
    kept: list[str] = Field(default=[], exclude_if=not_)  # a line for each earlier test set that it was compared on
    power: str = Field(default="", exclude_if=not_)  # if not promoted: the smallest lead that could have been seen
    outcomes: dict[When, Annotated[list[ProblemOutcome], Field(min_length=1)]]
    examples: list[Example]  # all test problems, in the order of their file
    metrics: dict[str, dict[str, float]]  # stage id → its metrics
    steps: dict[str, dict[str, list[float | None]]]  # round → column → its value at each step; None: not finite
    rewards: dict[str, Annotated[list[RewardBin], Field(min_length=1)]] = Field(default={})  # round → its histogram
    audits: dict[str, RewardAudit] = Field(default={}, exclude_if=not_)  # round → the audit of its rewards
    influence_round: int | None  # the last round in which influence was measured
    influence: list[Bar]
    extremes: Annotated[list[InfluenceExample], Field(max_length=2 * EXTREMES)] = Field(default=[], exclude_if=not_)
    """Samples of the last round with the highest influence, then those with the lowest; [] if it measured none."""
    tree: str | None  # SVG of a search tree of the last round

    @model_validator(mode="after")
    def _can_be_compared(self) -> "RunRecord":
        most = max(self.evaluation.ks)
        if missing := set(WHENS) - set(self.outcomes):
            raise ValueError(f"outcomes: none {' and '.join(sorted(missing))}")
        for outcome in (outcome for listed in self.outcomes.values() for outcome in listed):
            counts = [outcome.correct, *outcome.wrong]
            if min(counts) < 0 or max(sum(counts), most) > outcome.samples:
                raise ValueError(f"outcomes: the counts of {outcome.problem_id!r} are none of its samples")
        return self

    def policies(self) -> dict[str, dict[str, float]]:
        """Title of each policy that was measured on the test problems, in order → its metrics."""
        first, last = self.numbers("evaluate@before"), self.numbers("evaluate@after")
        if "base" not in self.outcomes:
            return {"before": first, "after": last}
        base = {name.removeprefix(BASE): value for name, value in first.items() if name.startswith(BASE)}
        return {"base": base, "warm start": first, "after": last}

    def tested(self, when: When) -> set[str]:
        """The ids of the problems that were tested."""
        return {outcome.problem_id for outcome in self.outcomes[when]}

    def numbers(self, stage_id: str) -> dict[str, float]:
        """The metrics of a stage. Raises GraftError that names the stage to run if it has none."""
        if stage_id not in self.metrics:
            raise GraftError(f"run/metrics/{stage_id}.json: no such file; run graft stage {stage_id}")
        return self.metrics[stage_id]

    @property
    def audit_lines(self) -> list[str]:
        """What the audits of the rewards found, round by round, and remedies; one line where all rewards look right,
        none if `selection_lines` says so."""
        if self.audits and all(audit.answer == "right" for audit in self.audits.values()):
            return [] if self.selection_lines else ["Rewards look right in every round."]
        return [
            *(f"Round {number}: {audit.sentence}." for number, audit in self.audits.items()),
            *(f"{line}." for line in self.remedies),
        ]

    @property
    def selection_lines(self) -> list[str]:
        """A sentence about what decided which samples the update saw; none where the metrics do not tell."""
        rounds = {n: numbers for n in range(1, self.rounds + 1) if (numbers := self.metrics.get(f"select@{n}"))}
        sentence = selection_sentence(self.params, rounds)
        return [sentence] if sentence else []

    @property
    def baseline_lines(self) -> list[str]:
        """Two sentences about what there is without training; none where it was not measured."""
        return baseline_sentences(self.metrics)

    @property
    def is_influence_local(self) -> bool:
        """Whether influence is `local`: agreement with similar validation completions; PPO's is always `dot`."""
        return self.params.get("influence.similarity") == "local" and self.params.get("algorithm") != "ppo"

    @property
    def training_lines(self) -> list[str]:
        """What the update leaves out by its params, as far as GRPO as published does not."""
        weight = self.params.get("update.negative_weight") if self.params.get("algorithm") != "ppo" else None
        return ["failures are not learned from (update.negative_weight 0)"] if weight in ("0", "0.0") else []

    @property
    def alarms(self) -> list[str]:
        """A sentence for each remark of `training_alarms`."""
        remarks = (remark for listed in training_alarms(self.metrics, self.rounds).values() for remark in listed)
        return [f"{remark[0].upper()}{remark[1:]}." for remark in remarks]

    @property
    def remedies(self) -> list[str]:
        """A line where the rewards of a round err, else none."""
        return [REMEDY] if any(audit.answer == "err" for audit in self.audits.values()) else []

    @property
    def evaluation(self) -> EvaluationParams:
        """How it was evaluated. Raises ValueError if a param is missing or out of range."""
        try:
            return EvaluationParams(seed=json.loads(self.params["seed"]), ks=json.loads(self.params["evaluation.ks"]))
        except (KeyError, RecursionError) as error:
            raise ValueError(f"params: {error} is missing or no value") from None


def read_run_record(layout: Layout) -> RunRecord:
    """The record of the run in a folder. Raises GraftError if a file is missing or damaged."""
    if not layout.promotion.is_file():
        raise GraftError(f"{layout.root}: no finished run, {layout.promotion} is missing; run graft retrain there")
    params = params_of_run(layout.root)
    rounds = rounds_of(layout.root, params)
    numbers = range(1, rounds + 1)
    measured = ((n, influence_histogram(read_jsonl(layout.selection(n), Selected))) for n in reversed(numbers))
    influence_round, bins = next((pair for pair in measured if pair[1]), (None, []))
    ends = influence_extremes(layout, rounds) if influence_round == rounds else []
    audits = {str(n): read_json(layout.audit(n), RewardAudit) for n in numbers if layout.audit(n).is_file()}
    stage_ids = sorted(path.stem for path in layout.metrics("problems").parent.glob("*.json"))
    decision = read_json(layout.promotion, Promotion)
    try:
        return RunRecord(
            params=params,
            rounds=rounds,
            test_sha256=digest_path(layout.problems("test")),
            decision=decision.reason,
            kept=list(map(describe_kept, decision.kept)),
            power="" if decision.promoted else decision.power,
            outcomes=_outcomes(layout),
            examples=_examples(layout),
            metrics={
                stage_id: read_metrics(layout, stage_id) for stage_id in stage_ids if _is_within(rounds, stage_id)
            },
            steps={str(n): _steps(layout.steps(n)) for n in numbers if layout.steps(n).is_file()},
            rewards={str(n): read_histogram(layout, n) for n in numbers if layout.reward_histogram(n).is_file()},
            audits=audits,
            influence_round=influence_round,
            influence=[Bar(**bin._asdict()) for bin in bins],
            extremes=ends,
            tree=read_text(layout.tree(rounds)) if layout.tree(rounds).is_file() else None,
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "its params"
        raise GraftError(f"{layout.root}: {field}: {first['msg']}; run graft retrain there") from None


def rounds_of(root: Path, params: Mapping[str, str]) -> int:
    """The number of rounds of a run. Raises GraftError if its params lack it."""
    text = params.get("rounds.last", "")
    if not re.fullmatch("[0-9]{1,6}", text):
        raise GraftError(
            f"{root}: rounds.last is {text!r}, no number of rounds; restore params.yaml and dvc.lock there"
        )
    return int(text)


def params_of_run(root: Path) -> dict[str, str]:
    """The params that the files in `run/` were made with, by their dotted names.

    Taken from `dvc.lock`, since params.yaml may have been edited; from params.yaml for params that no stage depends on,
    or if there is no lock. Raises GraftError if stages were made with different values of one param.
    """
    flat = {name: value for name, value in flatten(parse(root / "params.yaml")).items() if not is_run_only(name)}
    if not (root / "dvc.lock").is_file():
        return flat
    locked = _locked_params(root / "dvc.lock")
    last = locked.get("choose", {}).get("rounds.last")
    rounds = last if isinstance(last, int) else math.inf
    values: dict[str, tuple[str, Any]] = {}
    for stage_id in locked:
        for name, value in locked[stage_id].items() if _is_within(rounds, stage_id) else ():
            other, before = values.setdefault(name, (stage_id, value))
            if before != value:
                raise GraftError(
                    f"{root}: run/ is of two settings, {name} is {_short(before)} for {other} and {_short(value)} "
                    f"for {stage_id}; bring it up to date with graft retrain there"
                )
    for name, (_, value) in values.items():
        flat = {key: text for key, text in flat.items() if key != name and not key.startswith(f"{name}.")}
        flat |= flatten({name: value})
    return flat


def _locked_params(path: Path) -> dict[str, dict[str, Any]]:
    """Stage id → params of the stage in `dvc.lock`."""
    try:
        lock = _Lock.model_validate(parse(path))
    except ValidationError as error:
        raise GraftError(f"{path}: {first_problem(error)}; restore the file, git checkout dvc.lock") from None
    return {stage_id: (entry.params or {}).get("params.yaml", {}) for stage_id, entry in (lock.stages or {}).items()}


def _is_within(rounds: float, stage_id: str) -> bool:
    """False for a stage of a round that an earlier run with more rounds left."""
    part = stage_id.partition("@")[2]
    return not part.isdecimal() or int(part[:9]) <= rounds


def _short(value: Any) -> str:
    return shortened(json.dumps(value), 60)


def _outcomes(layout: Layout) -> dict[When, list[ProblemOutcome]]:
    files: dict[When, Path] = {"base": layout.evaluation("before") / "base.jsonl"}
    files = {when: file for when, file in files.items() if file.is_file()}
    files |= {when: layout.evaluation(when) / "outcomes.jsonl" for when in WHENS}
    return {when: read_jsonl(file, ProblemOutcome) for when, file in files.items()}


def _steps(path: Path) -> dict[str, list[float | None]]:
    try:
        rows = read_table(path)
    except (OSError, ValueError) as error:
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
            question=_cut(without_context(problem.question)),
            answer=problem.numbers[0] if problem.numbers else answer_text(problem.answer),
            fields=_cut(", ".join(f"{name}: {answer_text(value)}" for name, value in problem.fields.items())),
            before=_greedy(greedy["before"][problem.problem_id]),
            after=_greedy(greedy["after"][problem.problem_id]),
        )
        for problem in read_jsonl(layout.problems("test"), Problem)
        if all(problem.problem_id in greedy[when] for when in WHENS)
    ]


def _greedy(attempt: Attempt) -> GreedyCompletion:
    return GreedyCompletion(
        completion=_cut(attempt.code),
        outcome=_result_text(attempt.result),
        right=attempt.right,
        picture=attempt.picture,
    )


def _result_text(result: Result) -> str:
    if result.status == "ok":
        return f"{result.value:.9g}" if isinstance(result.value, float) else _cut(str(result.value))
    return _cut(f"{result.status}: {result.error}") if result.error else result.status


def _cut(text: str) -> str:
    return shortened(text, MAX_CHARACTERS)
