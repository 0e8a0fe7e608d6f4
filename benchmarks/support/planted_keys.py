"""Projects with planted wrong keys: simulated ones, and recorded runs of the default."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from flows.suspects.ballots import Ballots
from flows.suspects.suspects import doubts_of
from tasks.artifacts import read_jsonl
from tasks.environments.lookup import environment_of
from tasks.records.problems import Problem
from tasks.statistics.wrong_key import Votes, wrong_key_probabilities

KINDS = ("near", "other", "slip", "random")
SAMPLES = 8


class Case(NamedTuple):
    """The questions of a project, and which of their keys are planted."""

    votes: list[Votes]
    chances: list[float]
    wrong: list[bool]


def plant(answer: float, kind: str, answers: Sequence[float], luck: random.Random) -> float:
    """A wrong key: a number near, another problem's answer, a slip of sign, unit or factor, any number."""
    while True:
        near = answer + luck.choice([-3, -2, -1, 1, 2, 3])
        slip = luck.choice([-answer, answer * 10, answer / 10, answer * 60, answer * 12, answer / 2])
        any_number = luck.randrange(1, 4 * max(10, int(abs(answer))))
        found = {"near": near, "other": luck.choice(answers), "slip": slip or near, "random": any_number}[kind]
        if found != answer:
            return found


def simulate(
    seed: int, share: float, rounds: int, strength: float, answers: Sequence[float], has_siblings: bool
) -> Case:
    """A policy of this mean logit, which grows. Problems differ (sd 1.5), so does its luck on each from round to round.

    Wrong answers are spread over twelve of the kinds that keys are planted by, on some problems over one or two. Up to
    6 of 100 problems it mistakes always alike.
    """
    g, luck = np.random.default_rng(seed), random.Random(seed)
    growth, silent, mistaken = g.uniform(0, 0.3) * 4 / max(rounds, 4), g.uniform(0, 0.2), g.uniform(0, 0.06)
    votes, wrong = list[Votes](), list[bool]()
    for answer in answers:
        is_planted, is_mistaken = luck.random() < share, luck.random() < mistaken
        key = plant(answer, luck.choice(KINDS), answers, luck) if is_planted else answer
        others = [plant(answer, luck.choices(KINDS, (6, 3, 5, 6))[0], answers, luck) for _ in range(12)]
        spread = 0.05 if is_mistaken else 0.3 * np.exp(g.normal())
        weights = g.dirichlet(np.full(len(others), spread) + 1e-3)
        difficulty = g.uniform(2, 6) + max(strength, 0) if is_mistaken else g.normal(0, 1.5)
        wobble = np.array([g.normal(0, 0.5) * 0.8 ** (i % 3) for i in range(rounds)])
        right = g.binomial(SAMPLES, 1 / (1 + np.exp(difficulty - strength - growth * np.arange(rounds) - wobble))).sum()
        said = g.multinomial(g.binomial(SAMPLES * rounds - right, 1 - silent), weights)
        counts = {answer: int(right)}
        for other, count in zip(others, said, strict=True):
            counts[other] = counts.get(other, 0) + int(count)
        solid = {a: n if a == answer else int(g.binomial(n, 0.03)) for a, n in counts.items()} if has_siblings else {}
        rival = max((a for a in counts if a != key), key=lambda a: (solid.get(a, 0), counts[a]))
        confirmed = solid.get(key, 0), solid.get(rival, 0)
        votes.append(Votes(SAMPLES * rounds, counts.get(key, 0), counts[rival], *confirmed, has_siblings))
        wrong.append(is_planted)
    return Case(votes, wrong_key_probabilities(votes), wrong)


def recorded(run: Path, seed: int, share: float, with_siblings: bool) -> Case:
    """A recorded run, of whose problems some have a wrong key; without siblings each is asked one question alone."""
    layout = run / "run"
    problems = [p for split in ("train", "validation") for p in read_jsonl(layout / f"problems/{split}.jsonl", Problem)]
    luck, answers = random.Random(seed), [number for problem in problems for number in problem.numbers]
    planted, places = dict[str, bool](), dict[str, Problem]()
    for problem in problems:
        planted[problem.problem_id] = luck.random() < share
        key = problem.numbers[0]
        key = plant(key, luck.choice(KINDS), answers, luck) if planted[problem.problem_id] else key
        siblings = problem.siblings if with_siblings else []
        places[problem.problem_id] = problem.model_copy(update={"answer": key, "siblings": siblings})
    ballots = Ballots(environment_of("workflow"), places.values())
    files = {str(file): file for file in sorted(layout.glob("rounds/*/**/trajectories.jsonl"))}
    ballots.count([files])
    doubts = doubts_of(places, ballots)
    own = [ballots.votes(next(iter(ballots.asked(places[name])))[0]) for name in doubts]
    return Case(own, [doubt.chance for doubt in doubts.values()], [planted[name] for name in doubts])


def lognormal(seed: int, count: int) -> list[float]:
    """Answers of word problems: whole numbers of median 33."""
    return [float(int(each) + 1) for each in np.exp(np.random.default_rng(seed).normal(3.5, 1.3, count))]
