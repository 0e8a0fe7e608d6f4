"""Check of a round's samples that a server drew: the policy itself scores some, and the numbers have to agree.

A server is not trusted: one that samples the base without the adapter, or another round's adapter, or reports
log-probabilities of another temperature, answers without an error. The law is in tasks/objective/engine_mismatch.py.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain

from tasks.errors import GraftError
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import scorer_for
from tasks.objective.engine_mismatch import Mismatch, mismatch_of
from tasks.records import Engine
from tasks.seeds import derive_seed

ROWS = 64
"""Completions that are scored."""


def check_engine(
    policy: Policy,
    samples: Sequence[Sample],
    engine: Engine | None,
    temperature: float,
    micro_batch_tokens: int,
    round: int,
    previous: Callable[[], Policy] | None = None,
) -> dict[str, float]:
    """Metrics of the mismatch; {} where no server drew the samples. All processes call it together.

    `policy` is the one that drew them, `previous` loads the one of the round before in its place. Raises GraftError,
    with the likely cause, where the samples break the law.
    """
    rows = draw_rows(samples, round)
    if engine is None or not rows:
        return {}
    in_float32 = engine.dtype == "float32" and _is_float32(policy)
    own = score_rows(policy, rows, temperature, micro_batch_tokens)
    found = mismatch_of(_flat(own), _recorded(rows))
    if not found.is_lawful(in_float32):
        cause = likely_cause(policy, rows, own, temperature, micro_batch_tokens, in_float32, round, previous)
        raise GraftError(
            f"sampler: the log-probabilities that {engine} gave for round {round} are not the policy's, they differ "
            f"{found}: {cause}; then run graft stage --force search@{round}"
        )
    return {
        "sampler/gap_mean": found.mean,
        "sampler/gap_max": found.max,
        "sampler/kl": found.kl,
        "sampler/bounded_weights": found.bounded,
        "sampler/rows": len(rows),
        f"sampler/{engine.name}-{engine.version}-{engine.dtype}": 1,
    }


def draw_rows(samples: Sequence[Sample], round: int) -> list[Sample]:
    """At most ROWS of the samples with log-probabilities, the same at each call."""
    recorded = [s for s in samples if s.behaviour]
    return sorted(recorded, key=lambda s: derive_seed("engine", round, s.problem_id, s.member))[:ROWS]


def score_rows(
    policy: Policy, rows: Sequence[Sample], temperature: float, micro_batch_tokens: int
) -> list[list[float]]:
    """The policy's log-probabilities of each row's completion [T]."""
    import torch

    scorer = scorer_for(policy, rows, temperature, micro_batch_tokens)
    found: dict[tuple[str, int], list[float]] = {}
    with torch.no_grad():
        for batch in scorer.batches(rows):
            for sample, row in zip(batch.samples, scorer.score(batch).logprobs.tolist(), strict=True):
                found[sample.problem_id, sample.member] = row[: len(sample.completion)]
    return [found[sample.problem_id, sample.member] for sample in rows]


def likely_cause(
    policy: Policy,
    rows: Sequence[Sample],
    own: Sequence[Sequence[float]],
    temperature: float,
    micro_batch_tokens: int,
    in_float32: bool,
    round: int,
    previous: Callable[[], Policy] | None,
) -> str:
    """The mistake with which the recorded numbers would obey the law, and its remedy."""

    def explains(scores: Sequence[Sequence[float]], recorded: Sequence[float]) -> bool:
        found: Mismatch | None = mismatch_of(_flat(scores), recorded) if recorded else None
        return found is not None and found.is_lawful(in_float32)

    def score(policy: Policy, temperature: float, rows: Sequence[Sample] = rows) -> list[list[float]]:
        return score_rows(policy, rows, temperature, micro_batch_tokens)

    recorded = _recorded(rows)
    at_1 = [replace(s, temperature=None) for s in rows]
    if explains(score(policy, 1.0, at_1), recorded):
        return "they are raw, of temperature 1: start the server with --logprobs-mode processed_logprobs"
    for one, two in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
        if explains([row[one] for row in own], _flat([s.behaviour[two] for s in rows])):
            return "they are shifted by one token: take another version of that server"
    without = policy.model.disable_adapter() if policy.has_adapter else nullcontext()
    with without:
        if policy.has_adapter and explains(score(policy, temperature), recorded):
            return "they are of the base without the adapter: take a version of that server that does not ignore it"
    if previous is not None and explains(score(previous(), temperature), recorded):
        return f"they are of the policy of round {round - 2}: start the server again, whose cached states are old"
    return (
        "that server has other weights, or computes in another type than sampler.dtype: serve the policy's base, or "
        "set sampler.dtype to its type"
    )


def _is_float32(policy: Policy) -> bool:
    import torch

    return all(p.dtype == torch.float32 for p in policy.model.parameters() if p.is_floating_point())


def _recorded(rows: Sequence[Sample]) -> list[float]:
    return _flat([s.behaviour for s in rows])


def _flat(rows: Sequence[Sequence[float]]) -> list[float]:
    return list(chain.from_iterable(rows))
