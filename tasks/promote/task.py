"""Stage `promote`: evaluation and champion → `run/promotion.json`, `run/metrics.json`, and a new champion if better,
or with `promotion.approve` person a challenger."""

import json

from tasks.artifacts import digest_path, read_json, read_text, stream_jsonl, write_json, write_text
from tasks.core.metrics_files import read_metrics
from tasks.environments.lookup import environment_in
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.promote.challenger import ask_approval, keep_challenger, remove_challenger
from tasks.promote.champion import Challenger, champions_in_line, promote_policy, read_champion, read_history, utc_now
from tasks.promote.gate import decide_promotion
from tasks.promote.kept_sets import kept_after, kept_results, unlearnt_places
from tasks.promote.opponent import compared_by, confirm, gate_values, opponent_results, read_outcomes, results_of
from tasks.promote.retention import hold_back
from tasks.records.policy import Lineage
from tasks.records.problems import Problem
from tasks.records.promotion import Champion, Promotion
from tasks.seeds import derive_seed
from tasks.statistics.intervals import difference_interval
from tasks.statistics.learning_curves import headline, pass_at_k_table
from tasks.statistics.problem_profile import profile_of

LEVELS = {"pass_at_1", "champion_pass_at_1", "difference", "low", "high", "value", "champion_value", "detectable"}
"""Fields of the decision that are metrics of the stage."""


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001 (every stage has this signature)
    """Compare the run's policy with the champion on the current test problems, and promote it if it is better.

    A second run after a promotion finds its own policy as champion and repeats the recorded decision byte for byte.
    """
    policy = layout.run_policy
    version = read_json(policy / "lineage.json", Lineage).version
    test_sha256 = digest_path(layout.problems("test"))
    present = Champion(version=version, test_sha256=test_sha256, environment=params.environment.name)
    champion = read_champion(layout.champion, params.environment.name)

    if champion == present:
        write_text(layout.promotion, read_text(layout.champion / "promotion.json"))
    else:
        gate = compared_by(environment_in(layout.root, params), params)
        ours = results_of(read_outcomes(layout, "after"), gate)
        theirs = opponent_results(layout, params, champion)
        places, count = unlearnt_places(layout), len(ours.right)
        ours, theirs = ours.at(places), theirs.at(places)
        decision = decide_promotion(
            ours.right,
            theirs.right,
            version,
            champion.version if champion else None,
            derive_seed(params.seed, "promote"),
            champions_in_line(read_history(layout.champion))[1].get(version),
            gate_values(layout, gate, ours, theirs),
        )
        if len(places) < count:
            told = f"{decision.reason}; on {len(places)} of {count} test problems: the champion learnt from the others"
            decision = decision.model_copy(update={"reason": told})
        decision = hold_back(decision, kept_results(layout, params, champion), params.promotion.margin)
        if decision.promoted:
            decision = confirm(layout, params, decision, champion)
        if decision.promoted and params.promotion.approve == "person":
            decision = ask_approval(decision)
        write_json(layout.promotion, decision)
        kept = kept_after(layout, params, version)
        profile = profile_of(stream_jsonl(layout.problems("train"), Problem))
        challenger = Challenger(policy, layout.evaluation("after") / "outcomes.jsonl", decision, present, profile, kept)
        if decision.promoted:
            promote_policy(layout.champion, challenger, utc_now())
            remove_challenger(layout)
        elif decision.approval:
            keep_challenger(layout, challenger)
    decision = read_json(layout.promotion, Promotion)
    numbers = {"promoted": int(decision.promoted), **decision.model_dump(include=LEVELS)}
    if decision.confirmation:
        lead = decision.confirmation.model_dump(include={"difference", "low", "high"})
        numbers |= {f"confirmed_{name}": value for name, value in lead.items()}
    write_json(layout.metrics("promote"), numbers)
    first, last = (read_metrics(layout, f"evaluate@{name}") for name in ("before", "after"))
    write_text(layout.pass_at_k, pass_at_k_table(first, last))
    numbers = _headline(layout, params, decision, last)
    # Not by write_json, which sorts the keys: DVC shows the columns in this order.
    write_text(layout.headline, json.dumps(numbers, indent=2, allow_nan=False) + "\n")


def _headline(layout: Layout, params: Params, decision: Promotion, after: dict[str, float]) -> dict[str, float]:
    first, last = ([float(outcome.greedy) for outcome in read_outcomes(layout, name)] for name in ("before", "after"))
    seed = derive_seed(params.seed, "change", "pass_at_1_greedy")  # as in the report
    change = difference_interval(last, first, seed)
    return headline(sum(first) / len(first), after, change, decision.promoted)
