"""Answers of the completions of all recorded rounds, question by question, from the files that DVC's cache has."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dvc.repo import Repo
from dvc_data.hashfile.hash_info import HashInfo
from dvc_data.hashfile.tree import Tree

from flows.dvc_stages.site_cache import set_site_cache
from flows.retention.dvc_cache import saved_locks
from flows.stages.dvc_yaml import parse
from tasks.environments.protocol import Environment
from tasks.evaluators.choice import letter_in
from tasks.evaluators.number import number_of_value
from tasks.evaluators.text import normalise
from tasks.known_problems import question_key
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.statistics.wrong_key import Votes

OUTPUTS = re.compile(
    r"run/(rounds/\d+/(trajectories\.jsonl|validation)|evaluation/(before|after)|problems/test\.jsonl)"
)
"""Outputs of stages that hold completions, and the problems that an evaluation's are of."""

TESTS = "run/problems/test.jsonl"

Given = tuple[str | None, int, bool]
"""An answer in plain form, how many completions gave it, and whether these solve most siblings."""


def past_runs(root: Path) -> tuple[list[dict[str, Path]], int]:
    """The files by name of each run whose `dvc.lock` was saved, and of the present one; how many outputs are gone."""
    locks = [path for path in (*saved_locks(root), root / "dvc.lock") if path.is_file()]
    if not locks:
        return [], 0
    set_site_cache(root)
    cache, runs, gone = Repo(str(root)).cache.local, list[dict[str, Path]](), 0
    for stages in (parse(lock)["stages"] for lock in locks):
        outs = (out for stage in stages.values() for out in stage.get("outs", ()) if OUTPUTS.fullmatch(out["path"]))
        known = {out["path"]: HashInfo("md5", out["md5"]) for out in outs}
        here = {name: info for name, info in known.items() if cache.exists(info.value)}
        gone += len(known) - len(here)
        runs.append({name: path for out, info in here.items() for name, path in _files(cache, out, info)})
    return runs, gone


def _files(cache: Any, name: str, info: Any) -> Iterator[tuple[str, Path]]:
    inner = [((), info)] if not info.isdir else [(parts, own) for parts, _, own in Tree.load(cache, info)]
    return (("/".join([name, *parts]), Path(cache.oid_to_path(own.value))) for parts, own in inner)


@dataclass
class Ballot:
    """The answers to one question, in their plain forms."""

    samples: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    confirmed: Counter[str] = field(default_factory=Counter)  # of completions that solve most siblings
    led: Counter[str] = field(default_factory=Counter)  # answer → rounds in which it was the most frequent
    rounds: int = 0
    runs: set[int] = field(default_factory=set)
    has_siblings: bool = False  # with other answers


class Ballots:
    """The answers to the questions of problems, and how these compare with their keys."""

    def __init__(self, environment: Environment, problems: Iterable[Problem]) -> None:
        self._environment = environment
        variants = [variant for problem in problems for variant in problem.variants]
        self._asked = {question_key(variant.question): variant for variant in variants}
        self._scores: dict[tuple[str, str], float] = {}
        self.of = defaultdict[str, Ballot](Ballot)

    def count(self, runs: Iterable[Mapping[str, Path]]) -> int:
        """Count the files of runs, each once however many have it, and return how many there were."""
        known = set[Path]()
        for number, files in enumerate(runs):
            for name, path in files.items():
                is_evaluation = name.endswith("/attempts.jsonl") and TESTS in files
                if path not in known and (is_evaluation or name.endswith("/trajectories.jsonl")):
                    known.add(path)
                    for key, answers in self._attempts(path, files[TESTS]) if is_evaluation else self._rollouts(path):
                        self._add(key, answers, number)
        return len(known)

    def _rollouts(self, path: Path) -> Iterator[tuple[str, list[Given]]]:
        """Of independent samples: what a tree search wrote follows what was rewarded before."""
        for line in _lines(path):
            problem = line["problem"]
            keys = [question_key(each["question"]) for each in (problem, *problem["siblings"])]
            sampled = [m for m in line["members"] if m["proposer"] == "sample"]
            results = [[member["result"], *member["sibling_results"]] for member in sampled]
            asked = keys[: len(results[0])] if results else []
            answers = [[self._plain(key, result) for key, result in zip(asked, own, strict=True)] for own in results]
            right = [[self.score(key, plain) for key, plain in zip(asked, own, strict=True)] for own in answers]
            known = {i: self._asked[key].answer for i, key in enumerate(asked) if key in self._asked}
            for place, answer in known.items():
                others = [i for i, other in known.items() if other != answer]
                self.of[asked[place]].has_siblings |= bool(others)
                solved = [sum(own[i] for i in others) > len(others) / 2 for own in right]
                yield asked[place], [(own[place], 1, is_solved) for own, is_solved in zip(answers, solved, strict=True)]

    def _attempts(self, path: Path, tests: Path) -> Iterator[tuple[str, list[Given]]]:
        keys = {problem["problem_id"]: question_key(problem["question"]) for problem in _lines(tests)}
        given = defaultdict[str, list[Given]](list)
        for line in _lines(path):
            if (key := keys.get(line["problem_id"], "")) in self._asked:
                given[key].append((self._plain(key, line["result"]), line["samples"], bool(line["siblings_passed"])))
        yield from given.items()

    def _add(self, key: str, given: Iterable[Given], run: int) -> None:
        ballot, here = self.of[key], Counter[str]()
        for answer, count, is_confirmed in given:
            ballot.samples += count
            if answer is not None and count:
                here[answer] += count
                ballot.confirmed[answer] += count * is_confirmed
        ballot.answers += here
        ballot.led.update(sorted(here, key=lambda each: (here[each], each))[-1:])
        ballot.rounds += 1
        ballot.runs.add(run)

    def votes(self, key: str) -> Votes:
        """The counts of a question for its key and for the most frequent other answer."""
        ballot, rival = self.of[key], self.rival(key)
        agreed, confirmed = (
            sum(self.score(key, plain) * count for plain, count in counts.items())
            for counts in (ballot.answers, ballot.confirmed)
        )
        against = ballot.answers[rival], ballot.confirmed[rival]
        return Votes(ballot.samples, agreed, against[0], confirmed, against[1], ballot.has_siblings)

    def rival(self, key: str) -> str:
        """The most frequent answer of which at most half is right; "" without one."""
        ballot = self.of[key]
        wrong = [plain for plain in ballot.answers if self.score(key, plain) <= 0.5]
        return max(wrong, key=lambda plain: (ballot.confirmed[plain], ballot.answers[plain], plain), default="")

    def asked(self, problem: Problem) -> Iterator[tuple[str, Problem]]:
        """The variants of a problem of which completions are recorded, by the keys of their questions."""
        variants = ((question_key(variant.question), variant) for variant in problem.variants)
        return ((key, variant) for key, variant in variants if key in self.of and self.of[key].samples)

    def score(self, key: str, plain: str | None) -> float:
        """How right an answer in plain form is."""
        return self._scores.get((key, plain), 0.0) if plain is not None else 0.0

    def _plain(self, key: str, result: Mapping[str, Any]) -> str | None:
        """A result's answer in plain form, whose score is noted; None without an answer."""
        problem, value = self._asked.get(key), result.get("value")
        if problem is None or result["status"] != "ok" or not isinstance(value, int | float | str):
            return None
        plain = plain_answer(problem.evaluator, value)
        if (key, plain) not in self._scores:
            self._scores[key, plain] = self._environment.score(problem, Result(status="ok", value=value))
        return plain


def plain_answer(evaluator: str, value: float | str) -> str:
    """A value as its evaluator compares it: a number to nine digits, a letter, a text without case and articles."""
    number, text = number_of_value(value), str(value)
    if number is not None:
        return f"{number:.9g}"
    return (evaluator == "choice" and letter_in(text)) or (text if evaluator == "expression" else normalise(text))


def _lines(path: Path) -> Iterator[Any]:
    """The objects of a file, which may be of an older version: only what is needed here is looked at."""
    with path.open("rb") as lines:
        yield from (json.loads(line) for line in lines if line.strip())
