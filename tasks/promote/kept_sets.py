"""Test sets of earlier champions, in `champion/kept.jsonl`: policies are compared on those that have left."""

from tasks.artifacts import read_jsonl
from tasks.environments.lookup import environment_in
from tasks.known_problems import read_known
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promote.champion import read_kept
from tasks.promote.opponent import measured
from tasks.promote.retention import compare_kept, sets_after, sets_to_compare
from tasks.promotion_records import Champion, KeptResult, KeptSet
from tasks.records import Problem
from tasks.seeds import derive_seed


def kept_after(layout: Layout, params: Params, version: str) -> list[KeptSet]:
    """The kept sets if the policy `version` becomes champion tonight."""
    tonight = KeptSet(version=version, problems=read_jsonl(layout.problems("test"), Problem))
    return sets_after(read_kept(layout.champion), tonight, params.promotion.keep)


def kept_results(layout: Layout, params: Params, champion: Champion | None) -> list[KeptResult]:
    """The comparison of the run's policy with the champion on each kept set that the test problems do not cover."""
    folders = (layout.run_policy, layout.champion / "policy")
    test, known = read_jsonl(layout.problems("test"), Problem), map(read_known, folders)
    kept = sets_to_compare(read_kept(layout.champion), test, params.promotion.keep, *known)
    if champion is None or not kept:
        return []
    current = {problem.evaluator: problem.evaluator_sha256 for problem in test}  # of a user's evaluator, edited since
    problems = [
        problem.model_copy(update={"evaluator_sha256": current.get(problem.evaluator, problem.evaluator_sha256)})
        for each in kept
        for problem in each.problems
    ]
    ours, theirs = (measured(layout, params, folder, problems).compared for folder in folders)
    gate, results, first = environment_in(layout.root, params).gate, list[KeptResult](), 0
    for number, each in enumerate(kept):
        places = slice(first, first := first + len(each.problems))
        seed = derive_seed(params.seed, "promote", "kept", number)
        results.append(compare_kept(each, ours[places], theirs[places], params.promotion.margin, seed, gate))
    return results
