"""The problems on which the run's policy and the champion are compared: tonight's and earlier ones that neither learnt.

Where a run continues the champion's lineage these are all of tonight's. One that began elsewhere, from scratch with
another seed for instance, may be tested on what the champion learnt by heart.
"""

from tasks.artifacts import read_jsonl
from tasks.environments.lookup import environment_in
from tasks.errors import GraftError
from tasks.known_problems import read_known, unknown
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promote.champion import read_kept
from tasks.promote.opponent import measure
from tasks.promote.retention import HALF, compare_kept, sets_after, sets_to_compare
from tasks.records.problems import Problem
from tasks.records.promotion import Champion, KeptResult, KeptSet
from tasks.seeds import derive_seed


def unlearnt_places(layout: Layout) -> list[int]:
    """The places of the test problems that neither policy learnt from. Raises GraftError if they are too few."""
    test = read_jsonl(layout.problems("test"), Problem)
    left = {problem.problem_id for problem in unknown(test, _learnt(layout))}
    if len(left) < HALF * len(test):
        raise GraftError(
            f"champion/: learnt from {len(test) - len(left)} of the {len(test)} test problems, too many to be compared "
            "on the others; set policy.base to champion/policy and retrain, or move champion/ away"
        )
    return [place for place, problem in enumerate(test) if problem.problem_id in left]


def kept_after(layout: Layout, params: Params, version: str) -> list[KeptSet]:
    """The kept sets if the policy `version` becomes champion tonight."""
    test = read_jsonl(layout.problems("test"), Problem)
    name = f"{', '.join(sorted({problem.source for problem in test}))} ({version[:8]})"
    return sets_after(read_kept(layout.champion), KeptSet(name=name, problems=test), params.promotion.keep)


def kept_results(layout: Layout, params: Params, champion: Champion | None) -> list[KeptResult]:
    """The comparison on each kept set that tonight's test problems do not cover."""
    test = read_jsonl(layout.problems("test"), Problem)
    kept = sets_to_compare(read_kept(layout.champion), test, params.promotion.keep, _learnt(layout))
    if champion is None or not kept:
        return []
    current = {problem.evaluator: problem.evaluator_sha256 for problem in test}  # a user's may have been edited
    problems = [
        problem.model_copy(update={"evaluator_sha256": current.get(problem.evaluator, problem.evaluator_sha256)})
        for each in kept
        for problem in each.problems
    ]
    folders, gate = (layout.run_policy, layout.champion / "policy"), environment_in(layout.root, params).gate
    ours, theirs = (iter(measure(layout, params, folder, problems).compared) for folder in folders)
    results = []
    for number, each in enumerate(kept):
        values, champion_values = ([next(side) for _ in each.problems] for side in (ours, theirs))
        seed, lower = derive_seed(params.seed, "promote", "kept", number), gate is not None and gate.lower
        results.append(compare_kept(each, values, champion_values, params.promotion.margin, seed, lower))
    return results


def _learnt(layout: Layout) -> set[str]:
    policies = map(read_known, (layout.run_policy, layout.champion / "policy"))
    return {key for known in policies for key in known.learnt}
