"""Influence of samples whose loss is no multiple of Σ log p: old behaviour, clipping, KL, entropy.

Against a backward pass for each sample, in float64 (gpt2: the norms of other architectures are in float32).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from tasks.errors import GraftError
from tasks.grpo.gradient import objective_of
from tasks.grpo.recorded_logprobs import Logprobs, pad_logprobs, sample_key
from tasks.influence.loss_gradients import loss_denominator, loss_gradient
from tasks.influence.sample_gradients import lora_factors
from tasks.influence.tracin import Measure, influences
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import MicroBatch
from tasks.model.scoring.scorer import Scorer
from tasks.model.scoring.token_scores import TokenScores
from tasks.objective.losses import Objective, token_losses
from tasks.objective.token_weights import TokenWeights
from tests.support.grpo_params import grpo_params
from tests.support.pairwise import case_name, pairwise_cases
from tests.support.plain_scores import sample_logprobs
from tests.support.validation import advantage_validation

MakePolicy = Callable[..., Policy]
MakeSamples = Callable[..., list[Sample]]

OBJECTIVES = {
    "clipped": {"loss": "dapo"},
    "KL": {"loss": "grpo", "beta": 0.05},
    "sequence": {"loss": "grpo", "importance": "sequence"},
    "entropy": {"loss": "cispo", "entropy": 0.02, "beta": 0.05, "kl": "k2", "kl_correction": True},
}
CASES = pairwise_cases(
    name=list(OBJECTIVES),
    validation=["held out", "same batch", "exclude_self", "leave_group_out"],
    similarity=["dot", "cosine"],
    adam=[None, 2],
    budget=[200_000, 2**30],  # bytes for the gradients of one group, or of all
)


@dataclass
class Losses:
    """GRPO's, of samples that another policy wrote; `seen` are those that were computed."""

    behaviour: Logprobs
    reference: Logprobs
    objective: Objective
    seen: set[tuple[str, int]]
    clipped: int = 0

    def __call__(self, samples: Sequence[Sample], scored: TokenScores) -> torch.Tensor:
        self.seen |= {sample_key(s) for s in samples}
        logprobs, beta, entropy = scored.logprobs, self.objective.beta, self.objective.entropy
        found = token_losses(
            logprobs,
            pad_logprobs(self.behaviour, samples, logprobs),
            pad_logprobs(self.reference, samples, logprobs) if beta else None,
            scored.entropies if entropy else None,
            logprobs.new_tensor([s.advantage for s in samples]),
            scored.mask,
            self.objective,
        )
        self.clipped += int(found.clipped.sum())
        return found.loss


def scorer_of(policy: Policy) -> Scorer:
    return Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7)


def losses_of(policy: Policy, samples: list[Sample], noise: float = 0.4, **objective: Any) -> Losses:
    """Behaviour and reference are the policy's log-probabilities with so much noise."""
    generator = torch.Generator().manual_seed(5)

    def near() -> Logprobs:
        with torch.no_grad():
            rows = {sample_key(s): sample_logprobs(policy.model, [s], 0.7)[0] for s in samples}
        return {k: row + noise * torch.randn(row.shape, generator=generator).to(row) for k, row in rows.items()}

    return Losses(near(), near(), objective_of(grpo_params(**objective)), set())


def weights_of(policy: Policy) -> list[torch.Tensor]:
    return [module.weight for module in lora_factors(policy.model).values()]


def row(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat([g.flatten() for g in gradients])


def loss_rows(policy: Policy, samples: list[Sample], averaging: TokenWeights, losses: Losses) -> torch.Tensor:
    """∇L_i of each sample alone, [n, P]; 0 where it has no signal."""
    rows = []
    for s in samples:
        scored = scorer_of(policy).score(MicroBatch("rows", [[s]]))
        loss = losses([s], scored).sum() * averaging.weight(len(s.completion)) / loss_denominator(samples, averaging)
        rows.append(row(torch.autograd.grad(loss, weights_of(policy))) * bool(s.advantage))
    return torch.stack(rows)


def score_rows(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    """∇ Σ log p of each sample alone, [n, P]."""
    sums = (sample_logprobs(policy.model, [s], 0.7).sum() for s in samples)
    return torch.stack([row(torch.autograd.grad(total, weights_of(policy))) for total in sums])


def mixed(samples: list[Sample]) -> list[Sample]:
    """Some without a signal, and one that is written twice, by different policies."""
    silent = [replace(s, advantage=0.0) if place % 5 == 2 else s for place, s in enumerate(samples)]
    return [*silent, replace(silent[-1], member=99)]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_it_is_the_product_of_the_losses_gradients(
    case: dict[str, Any], make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    name, same_batch = case["name"], case["validation"] != "held out"
    policy, samples = make_policy("gpt2", "float64"), mixed(make_samples(problems=5, seed=3))
    losses, averaging = losses_of(policy, samples, **OBJECTIVES[name]), TokenWeights(OBJECTIVES[name]["loss"], 64)
    others = samples if same_batch else make_samples(problems=4, seed=4)
    judged = [replace(s, advantage=float((-1) ** place * (place % 4))) for place, s in enumerate(others)]
    validation = advantage_validation(judged, TokenWeights("dapo", 64), same_batch)
    left_out = {case["validation"]: True} if case["validation"] in ("exclude_self", "leave_group_out") else {}
    measure = Measure(similarity=case["similarity"], adam=case["adam"], budget=case["budget"], **left_out)
    found = influences(scorer_of(policy), samples, averaging, validation, measure, token_losses=losses).each
    assert same_batch or losses.seen == {sample_key(s) for s in samples if s.advantage}
    if name != "entropy":
        assert losses.clipped

    own, theirs = loss_rows(policy, samples, averaging, losses), score_rows(policy, judged)
    c = torch.tensor([-s.advantage for s in judged], dtype=torch.float64) / loss_denominator(
        judged, TokenWeights("dapo", 64)
    )
    products = own @ (c @ theirs)
    scale = torch.ones(own.shape[1], dtype=torch.float64)
    if case["adam"]:
        names = list(dict.fromkeys(s.problem_id for s in samples))
        steps = [[s for s in samples if s.problem_id in names[start : start + 2]] for start in (0, 2, 4)]
        squares = sum(loss_rows(policy, step, averaging, losses).sum(0) ** 2 / 3 for step in steps)
        scale = 1 / (squares.sqrt() + 1e-8)
    ours = own
    if case["similarity"] == "cosine":
        ours, theirs = own / own.norm(dim=1).clamp(min=1e-300)[:, None], theirs / theirs.norm(dim=1)[:, None]
        c = c.sign() / len(judged)
    votes = ((ours * scale) @ theirs.T) * c
    for i, sample in enumerate(samples if same_batch else []):
        for j, other in enumerate(judged):
            group = measure.leave_group_out and other.problem_id == sample.problem_id
            if group or (measure.exclude_self and i == j):
                votes[i, j] = 0
    expected = votes.sum(1)
    for place, one in enumerate(found):
        assert one.influence == pytest.approx(float(expected[place]), rel=1e-9, abs=1e-10 * float(expected.abs().max()))
        assert one.product == pytest.approx(float(products[place]), rel=1e-9, abs=1e-10 * float(products.abs().max()))
        assert one.gradient_norm == pytest.approx(float(own[place].norm()), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_predicts_what_a_step_on_the_samples_loss_does(
    name: str, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples, others = make_policy("gpt2", "float64"), make_samples(problems=6, seed=1), make_samples(seed=2)
    losses, averaging = losses_of(policy, samples, **OBJECTIVES[name]), TokenWeights(OBJECTIVES[name]["loss"], 64)
    validation = advantage_validation(others, TokenWeights("dapo", 64))
    found = influences(scorer_of(policy), samples, averaging, validation, token_losses=losses).each
    gains = torch.tensor([-s.advantage for s in others], dtype=torch.float64)

    def loss() -> float:
        with torch.no_grad():
            sums = sample_logprobs(policy.model, others, 0.7).sum(1)
        return float(sums @ gains) / loss_denominator(others, TokenWeights("dapo", 64))

    before, changes = loss(), []
    for own in loss_rows(policy, samples, averaging, losses):
        for way in (-1e-4, 1e-4):
            with torch.no_grad():
                parts = own.split([w.numel() for w in weights_of(policy)])
                for weight, part in zip(weights_of(policy), parts, strict=True):
                    weight += way * part.view_as(weight)
            if way < 0:
                changes.append(loss() - before)
    predicted = torch.tensor([1e-4 * s.influence for s in found], dtype=torch.float64)
    slope = float((torch.tensor(changes, dtype=torch.float64) @ predicted) / (predicted @ predicted))
    assert -1.01 <= slope <= -0.99


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("same_batch", [False, True])
def test_at_ratio_1_without_other_terms_it_is_that_of_scores(
    same_batch: bool, similarity: Any, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy("gpt2", "float64"), mixed(make_samples())
    losses, averaging = losses_of(policy, samples, noise=0.0, loss="grpo"), TokenWeights("grpo", 64)
    validation = advantage_validation(samples if same_batch else make_samples(seed=1), averaging, same_batch)
    given = (scorer_of(policy), samples, averaging, validation, Measure(exclude_self=True, similarity=similarity))
    for ours, theirs in zip(influences(*given, token_losses=losses).each, influences(*given).each, strict=True):
        assert ours.influence == pytest.approx(theirs.influence, rel=1e-9, abs=1e-13)
        assert ours.gradient_norm == pytest.approx(theirs.gradient_norm, rel=1e-9)


def test_the_gradient_of_token_losses_is_that_of_the_written_out_loss(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples, averaging = make_policy("gpt2", "float64"), mixed(make_samples()), TokenWeights("grpo", 64)
    losses = losses_of(policy, samples, **OBJECTIVES["KL"])
    found = loss_gradient(scorer_of(policy), samples, averaging, losses)
    expected = loss_rows(policy, samples, averaging, losses).sum(0)
    assert (row(list(found.values())) - expected).norm() <= 1e-9 * expected.norm()


@pytest.mark.parametrize("similarity", ["centred", "local"])
def test_what_compares_completions_by_their_scores_is_refused(
    similarity: Any, make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(), make_samples()
    averaging, losses = TokenWeights("dapo", 64), losses_of(policy, samples)
    validation, measure = advantage_validation(samples, averaging), Measure(similarity=similarity)
    with pytest.raises(GraftError, match=rf"similarity: {similarity} compares .* token losses .*; take dot or cosine"):
        influences(scorer_of(policy), samples, averaging, validation, measure, token_losses=losses)
