"""Check of a round's samples: the policy scores some, and the sampler's log-probabilities have to agree with that.

A server is not trusted: one that samples the base without the adapter, or another round's adapter, or reports
log-probabilities of another temperature, answers without an error. Graft's own sampler computes with other kernels than
the update, which in 16 bits makes as much of a difference as a server does. The law is in
tasks/model/scoring/mismatch.py.
"""

from collections.abc import Sequence

import torch

from tasks.errors import GraftError
from tasks.model.hf_model import has_narrow_weights
from tasks.model.sample import Sample
from tasks.model.scoring.mismatch import mismatch_of
from tasks.model.scoring.scorer import Scorer
from tasks.records.search import Engine
from tasks.seeds import derive_seed

ROWS = 64
"""Completions that are scored."""


def check_sampler(scorer: Scorer, samples: Sequence[Sample], engine: Engine | None, round: int) -> dict[str, float]:
    """Metrics of the mismatch; {} where no log-probabilities are recorded. All processes call it together.

    `engine`: the server that drew the samples, None: Graft itself. `scorer`: of the policy that drew them. Raises
    GraftError where the samples break the law.
    """
    rows = draw_rows(samples, round)
    if not rows:
        return {}
    in_float32 = (engine is None or engine.dtype == "float32") and not has_narrow_weights(scorer.model)
    scores = score_rows(scorer, rows)
    gaps = [
        (logprob - recorded, scorer.temperature if s.temperature is None else s.temperature)
        for s, row in zip(rows, scores, strict=True)
        for logprob, recorded in zip(row, s.behaviour, strict=True)
    ]
    mismatch = lawful = mismatch_of([gap for gap, _ in gaps])
    if not in_float32:  # the law is one of logits, which were divided by the temperature
        lawful = mismatch_of([gap * divisor for gap, divisor in gaps])
    if not lawful.is_lawful(in_float32):
        if engine is None:
            raise GraftError(
                f"sampler: the log-probabilities recorded in round {round} are not the policy's, they differ "
                f"{mismatch}: another machine or other versions made them; run graft stage --force search@{round}"
            )
        raise GraftError(
            f"sampler: the log-probabilities that {engine} gave for round {round} are not the policy's, they differ "
            f"{mismatch}: it has another base or adapter, computes in another type than the param vllm, or gives raw "
            "numbers, of temperature 1; start it again, with that base and type and --logprobs-mode "
            f"processed_logprobs, then run graft stage --force search@{round}"
        )
    metrics = {
        "sampler/gap_mean": mismatch.mean,
        "sampler/gap_max": mismatch.max,
        "sampler/kl": mismatch.kl,
        "sampler/bounded_weights": mismatch.bounded,
        "sampler/rows": len(rows),
    }
    return metrics | ({f"sampler/{engine.name}-{engine.version}-{engine.dtype}": 1} if engine else {})


def draw_rows(samples: Sequence[Sample], round: int) -> list[Sample]:
    """At most ROWS of the samples with log-probabilities, the same at each call."""
    recorded = [s for s in samples if s.behaviour]
    return sorted(recorded, key=lambda s: derive_seed("engine", round, s.problem_id, s.member))[:ROWS]


def score_rows(scorer: Scorer, rows: Sequence[Sample]) -> list[list[float]]:
    """The policy's log-probabilities of each row's completion [T]."""
    scores: dict[tuple[str, int], list[float]] = {}
    with torch.no_grad():
        for batch in scorer.batches(rows):
            for sample, row in zip(batch.samples, scorer.score(batch).logprobs.tolist(), strict=True):
                scores[sample.problem_id, sample.member] = row[: len(sample.completion)]
    return [scores[sample.problem_id, sample.member] for sample in rows]
