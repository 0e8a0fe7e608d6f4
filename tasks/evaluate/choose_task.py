"""Stage `choose`: the standings of the rounds → the run's final policy and the reason of the choice."""

import logging
from collections.abc import Sequence

from tasks.artifacts import (
    atomic_folder,
    copy_folder,
    digest_path,
    read_json,
    read_jsonl,
    read_text,
    write_json,
    write_text,
)
from tasks.errors import GraftError
from tasks.evaluate.best_round import best_standing, choice_reason, plateau_remarks
from tasks.layout import Layout
from tasks.params.params import Params
from tasks.records import Choice, Lineage, Standing

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001 (every stage has this signature)
    """Copy the best round's policy, or the last one's if `evaluation.every` is 0, to `run/policy`.

    Raises GraftError if the best round's policy differs from the measured one: DVC tracks only the last policy as a
    dependency of this stage, the standings record the digests of the others.
    """
    standings = read_jsonl(layout.standings(params.rounds.last), Standing)
    choice = _choice(layout, params, standings)
    policy = layout.policy(choice.round)
    for standing in standings:
        if standing.round == choice.round and digest_path(policy) != standing.policy_sha256:
            raise GraftError(
                f"{policy}: not the policy that was measured; run graft stage update@{choice.round} "
                f"validate@{choice.round}"
            )
    with atomic_folder(layout.run_policy) as new:
        copy_folder(policy, new)
    write_json(layout.best, choice)
    write_text(layout.run_curves, read_text(layout.curves(params.rounds.last)))
    for remark in plateau_remarks(standings, params.seed):
        logger.warning(remark)
    write_json(layout.metrics("choose"), _numbers(choice, standings))


def _choice(layout: Layout, params: Params, standings: Sequence[Standing]) -> Choice:
    last = params.rounds.last
    if standings:
        best = best_standing(standings)
        why = choice_reason(best, standings, last, params.seed)
        return Choice(round=best.round, version=best.version, reason=why)
    version = read_json(layout.policy(last) / "lineage.json", Lineage).version
    why = f"round {last}, the last: evaluation.every is 0, so rounds were not compared"
    return Choice(round=last, version=version, reason=why)


def _numbers(choice: Choice, standings: Sequence[Standing]) -> dict[str, float]:
    """The round, its pass@1 on dev and the last round's, if measured."""
    numbers: dict[str, float] = {"round": choice.round}
    if standings:
        numbers["pass_at_1"] = best_standing(standings).pass_at_1
        numbers["last_pass_at_1"] = standings[-1].pass_at_1
    return numbers
