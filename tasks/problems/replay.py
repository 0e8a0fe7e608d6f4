"""Replay: a share of the train problems is of earlier runs, so that what these taught is not forgotten.

A policy's folder has a pool of them: the problems of the lowest hashes, of all that its lineage was trained on. This
bottom-k sample is uniform over different problems, however often one came, and it is made again from itself and a run's
problems alone (Cohen and Kaplan 2007, "Summarizing data using bottom-k sketches"). Rehearsal against forgetting: Robins
1995; uniform samples of the past: Rolnick et al. 2019.
"""

from collections.abc import Sequence

from tasks.artifacts import digest_text
from tasks.known_problems import keys_of, question_key, unknown
from tasks.records.problems import Problem
from tasks.seeds import derive_seed


def pool_after(pool: Sequence[Problem], train: Sequence[Problem], seed: int) -> list[Problem]:
    """The pool after a run, as large as its train problems."""
    problems = {question_key(problem.question): problem for problem in [*pool, *train]}
    order = sorted(problems, key=lambda key: derive_seed(seed, "replay", key))
    return [problems[key] for key in order[: len(train)]]


def with_replay(
    train: Sequence[Problem], pool: Sequence[Problem], present: Sequence[Problem], share: float, seed: int
) -> list[Problem]:
    """The train problems, of which up to `share` gave way to problems of the pool, in equal number, at the end.

    Not to those that are `present` in tonight's splits, nor of an evaluator of the user's that was edited since. They
    are named by their question, since problems of two sources may have the same id.
    """
    evaluators = {None, *(problem.evaluator_sha256 for problem in train)}
    usable = [each for each in unknown(pool, keys_of(*present)) if each.evaluator_sha256 in evaluators]
    tonight = digest_text("\n".join(problem.question for problem in train))  # another draw each night
    usable.sort(key=lambda problem: derive_seed(seed, "replay", tonight, problem.question))
    replayed = [
        problem.model_copy(update={"problem_id": f"replay-{question_key(problem.question)}"})
        for problem in usable[: round(share * len(train))]
    ]
    return [*train[: len(train) - len(replayed)], *replayed]
