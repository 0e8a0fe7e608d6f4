"""Stage `choose`: the standings of the rounds → the run's final policy and the reason of the choice."""

import logging

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
from tasks.layout import KNOWN, REPLAY, Layout
from tasks.model.checkpoints.version import LINEAGE, digest_policy
from tasks.params.params import Params
from tasks.records.evaluation import Choice, Standing
from tasks.records.policy import Lineage

logger = logging.getLogger(__name__)


def run(layout: Layout, params: Params, round: int | None) -> None:  # noqa: ARG001 (every stage has this signature)
    """Copy the best round's policy, or the last one's if `evaluation.every` is 0, to `run/policy`.

    With it goes the record of the problems that its lineage knows.

    Raises GraftError if the best round's policy differs from the measured one: DVC tracks only the last policy as a
    dependency of this stage, the standings record the digests of the others.
    """
    last = params.rounds.last
    standings = read_jsonl(layout.standings(last), Standing)
    numbers: dict[str, float] = {}
    if standings:
        best = best_standing(standings)
        policy = layout.policy(best.round)
        if digest_path(policy) != best.policy_sha256:
            raise GraftError(
                f"{policy}: not the policy that was measured; run graft stage update@{best.round} validate@{best.round}"
            )
        why = choice_reason(best, standings, last, params.seed)
        choice = Choice(round=best.round, version=best.version, reason=why)
        numbers = {"pass_at_1": best.pass_at_1, "last_pass_at_1": standings[-1].pass_at_1}
    else:
        policy = layout.policy(last)
        version = read_json(policy / "lineage.json", Lineage).version
        why = f"round {last}, the last: evaluation.every is 0, so rounds were not compared"
        choice = Choice(round=last, version=version, reason=why)
    with atomic_folder(layout.run_policy) as new:
        copy_folder(policy, new)
        for name in (KNOWN, REPLAY):
            write_text(new / name, read_text(layout.carried(name)))
        write_json(new / LINEAGE, digest_policy(new, read_json(new / LINEAGE, Lineage)))
    write_json(layout.best, choice)
    write_text(layout.run_curves, read_text(layout.curves(last)))
    for remark in plateau_remarks(standings, params.seed):
        logger.warning(remark)
    write_json(layout.metrics("choose"), {"round": choice.round, **numbers})
