"""How well `graft suspects` finds planted wrong keys: python -m benchmarks.suspects [--lines GSM8K.jsonl] RUN…

A RUN is the folder of a finished run of the default project. Keys are planted into its recorded completions afterwards:
the policy is real, but was not trained on the wrong keys. Simulated policies err as support/planted_keys.py says; with
--lines the keys are those of a file. `fit` in front of the runs fits the weights instead, on other seeds.

The last line of standard output is one JSON object: the worst figures of the simulated months, and with --lines the
seconds for a night on all of them.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from benchmarks.support.planted_keys import SAMPLES, Case, lognormal, recorded, simulate
from flows.suspects.ballots import Ballots
from flows.suspects.suspects import doubts_of
from tasks.environments.lookup import environment_of
from tasks.problems.jsonl import Reader
from tasks.problems.near_duplicates import near_duplicates
from tasks.records.problems import Problem
from tasks.statistics.logistic_regression import fit_logistic_regression
from tasks.statistics.wrong_key import features, strength_of

SHARES = (0.02, 0.05, 0.1)

WORST = {"precision_at_20": min, "auc": min, "calibration": max}
"""Figure of the simulated months → which of them counts."""


def figures(cases: Sequence[Case]) -> dict[str, float]:
    """AUC and precision, means over the cases; expected calibration error in ten bins, over all their questions.

    Precision is that of the first 20, or of as many as there are wrong keys.
    """
    aucs, precisions = [], []
    for _, chances, wrong in cases:
        p, y = np.array(chances), np.array(wrong)
        above = (p[y][:, None] > p[~y]).mean() + (p[y][:, None] == p[~y]).mean() / 2
        aucs.append(above)
        precisions.append(y[np.argsort(-p, kind="stable")[: min(20, int(y.sum()))]].mean())
    p, y = (np.concatenate([np.array(case[i], float) for case in cases]) for i in (1, 2))
    bins = np.minimum((p * 10).astype(int), 9)
    error = sum(abs((p - y)[bins == b].sum()) for b in range(10)) / len(p)
    listed = y[p >= 0.5]
    return {
        "auc": float(np.mean(aucs)),
        "precision_at_20": float(np.mean(precisions)),
        "calibration": float(error),
        "listed": float(len(listed) / len(cases)),
        "listed_wrong": float(listed.mean()) if len(listed) else 0.0,
    }


def seconds(lines: Sequence[Problem]) -> float:
    """Seconds for a night on all these problems, four rounds of completions of 60 tokens: to count, judge, compare."""
    luck, own = random.Random(0), {problem.problem_id: problem for problem in lines}
    member = {"proposer": "sample", "sibling_results": [], "tokens": [7] * 60, "logprobs": [-luck.random()] * 60}
    with TemporaryDirectory() as folder:
        files = {name: Path(folder, str(n)) for n in range(4) for name in [f"{n}/trajectories.jsonl"]}
        for file, problem in ((file, problem) for file in files.values() for problem in lines):
            values = [problem.numbers[0] + (luck.random() < 0.4) * luck.randrange(9) for _ in range(SAMPLES)]
            members = [member | {"result": {"status": "ok", "value": value}} for value in values]
            with file.open("a") as stream:
                stream.write(json.dumps({"problem": problem.model_dump(mode="json"), "members": members}) + "\n")
        begin = perf_counter()
        ballots = Ballots(environment_of("workflow"), lines)
        ballots.count([files])
        doubts = doubts_of(own, ballots)
        near_duplicates([own[name] for name, doubt in doubts.items() if doubt.chance > 0.01], lines)
        return perf_counter() - begin


def fit(runs: Sequence[Path]) -> None:
    """Print the weights by simulated projects and by these runs."""
    g, cases = np.random.default_rng(1), list[Case]()
    for seed in range(200):
        share, rounds = g.choice([0, 0.01, 0.02, 0.05, 0.1]), int(g.choice([1, 2, 4, 4, 8, 16, 40, 120]))
        cases.append(simulate(seed, share, rounds, g.uniform(-1.5, 3), lognormal(seed, 400), bool(seed % 2)))
    cases += [recorded(run, 1, share, siblings) for run in runs for siblings in (True, False) for share in (0, *SHARES)]
    rows = [
        features(votes, strength) for case in cases for strength in [strength_of(case.votes)] for votes in case.votes
    ]
    wrong = np.array([own for case in cases for own in case.wrong], float)
    found = fit_logistic_regression(np.array(rows), wrong, penalty=1e-6)
    slopes = found.weights[1:] / found.deviations
    weights = [found.weights[0] - slopes @ found.means, *slopes]
    print(f"{len(wrong)} questions, {int(wrong.sum())} wrong keys:", ", ".join(f"{weight:.3f}" for weight in weights))


def report(runs: Sequence[Path], lines: list[Problem]) -> Iterator[tuple[str, dict[str, float]]]:
    """Figures of simulated nights and months, and of recorded runs."""
    answers = [problem.numbers[0] for problem in lines] or lognormal(0, 2000)
    for name, rounds in (("night", 4), ("month", 120)):
        for share in SHARES:
            seeds = range(10_000, 10_002)
            yield f"simulated {name} {share}", figures([simulate(s, share, rounds, 0.5, answers, False) for s in seeds])
    for siblings, share in ((siblings, share) for siblings in (True, False) for share in SHARES if runs):
        cases = [recorded(run, 10_000 + seed, share, siblings) for run in runs for seed in (0, 1)]
        yield f"recorded {'with' if siblings else 'without'} siblings {share}", figures(cases)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=Path)
    parser.add_argument("runs", nargs="*")
    asked = parser.parse_args()
    if asked.runs[:1] == ["fit"]:
        fit([Path(run) for run in asked.runs[1:]])
        return
    lines = Reader().read(asked.lines.name, asked.lines.read_text(), "lines") if asked.lines else []
    found = dict[str, dict[str, float]]()
    for name, own in report([Path(run) for run in asked.runs], lines):
        print(name, ", ".join(f"{key} {value:.3f}" for key, value in own.items()), flush=True)
        found[name] = own
    months = [own for name, own in found.items() if "month" in name]
    worst = {f"suspects_{name}": of(own[name] for own in months) for name, of in WORST.items()}
    if lines:
        worst["suspects_seconds"] = seconds(lines)
    print(json.dumps({name: round(value, 3) for name, value in worst.items()}))


if __name__ == "__main__":
    main()
