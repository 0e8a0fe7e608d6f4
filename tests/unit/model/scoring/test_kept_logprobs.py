"""Scores over kept sets, and their gradients, equal those of masked logits by plain autograd, in every layout."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from tasks.model.cpu import limits
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import RowLayout
from tests.support.influence import scorer_of
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.truncated_samples import drawn, kept_scores
from tests.support.updates import TRAINING_LAYOUTS, gradient_of

TEMPERATURE = 0.7


def mixed_samples(policy: Policy, samples: Sequence[Sample]) -> list[Sample]:
    """Drawn from kept sets, but for every fourth, whose sets are not known: a revision.

    One problem has a temperature of its own.
    """
    samples = [replace(s, temperature=1.3 if s.problem_id == "p1" else None) for s in samples]
    found = drawn(policy, samples, TEMPERATURE)
    return [s if place % 4 == 3 else own for place, (s, own) in enumerate(zip(samples, found, strict=True))]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("layout", TRAINING_LAYOUTS)
def test_every_layout_scores_over_the_kept_sets(
    layout: RowLayout,
    chunked: bool,
    make_policy: MakePolicy,
    make_samples: MakeSamples,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = make_policy()
    samples = mixed_samples(policy, make_samples(problems=5, group=4))
    if chunked:
        monkeypatch.setattr(limits, "LOGITS_BYTES", 3 * 4 * 300 * 7)
    scorer, total, expected = scorer_of(policy, layout), 0.0, torch.zeros(())
    policy.model.zero_grad()
    for batch in scorer.batches(samples):
        scored = scorer.score(batch)
        weights = scored.logprobs.new_tensor([s.advantage for s in batch.samples])
        loss = ((scored.logprobs + 0.3 * scored.entropies).sum(1) * weights).sum()
        loss.backward()
        total += float(loss.detach())
        for s, row, entropies in zip(batch.samples, scored.logprobs, scored.entropies, strict=True):
            plain, plain_entropies = kept_scores(policy.model, s, TEMPERATURE)
            torch.testing.assert_close(row[: len(plain)], plain, atol=1e-5, rtol=0)
            torch.testing.assert_close(entropies[: len(plain)], plain_entropies, atol=1e-5, rtol=0)
            expected = expected + s.advantage * (plain + 0.3 * plain_entropies).sum()
    gradient = gradient_of(policy)
    policy.model.zero_grad()
    expected.backward()
    assert total == pytest.approx(float(expected.detach()), abs=1e-3)
    assert (gradient - gradient_of(policy)).norm() <= 1e-5 * gradient.norm()
