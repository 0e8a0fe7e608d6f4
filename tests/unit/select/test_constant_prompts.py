"""With constant prompts scores stay the same, and the gradient is that of a loss whose prompts' states are detached."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, with_constant_prompts
from tasks.select.gradient_passes import GradientPasses
from tasks.select.sample_gradients import lora_factors
from tests.support.influence import certificate_of, flat, gradient_of, products_of, scorer_of
from tests.support.policies import MakePolicy, MakeSamples
from tests.support.validation import advantage_validation

TEMPERATURE = 0.7


def with_examples(samples: list[Sample], tokens: int = 40) -> list[Sample]:
    """The same samples, whose prompts begin with the same worked examples; one prompt is nothing else but a token."""
    common = tuple(2 + place % 200 for place in range(tokens))
    shortest = min({s.prompt for s in samples}, key=len)
    return [replace(s, prompt=common + (s.prompt[:1] if s.prompt == shortest else s.prompt)) for s in samples]


def detached_sum(policy: Policy, sample: Sample) -> torch.Tensor:
    """Σ log p of a completion after the prompt's states, which are computed first and without a gradient."""
    *context, last = sample.prompt
    with torch.no_grad():
        states = policy.model(input_ids=torch.tensor([context]), use_cache=True).cache if context else None
    ids = torch.tensor([[last, *sample.completion[:-1]]])
    logits = policy.model(input_ids=ids, cache=states, use_cache=True).logits[0]
    logprobs = (logits / TEMPERATURE).log_softmax(-1)
    return logprobs[range(len(sample.completion)), list(sample.completion)].sum()


def gradients_by(scorer: Scorer, samples: list[Sample]) -> dict[tuple[str, int], torch.Tensor]:
    """The gradient of each sample's Σ log p, in the order of the adapter's weights."""
    names = [*lora_factors(scorer.model)]
    return {
        (s.problem_id, s.member): flat(block.gradients[name][place] for name in names)
        for block in GradientPasses(scorer, samples, budget=2**30)
        for place, s in enumerate(block.rows)
    }


@pytest.mark.parametrize("change", [list, with_examples], ids=["prompts alone", "with common examples"])
@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "llama"])
def test_scores_are_those_of_padded_rows(
    kind: str, change: Callable[[list[Sample]], list[Sample]], make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy(kind), change(make_samples(problems=5, group=4))
    rows, expected = scorer_of(policy, "rows"), {}
    for batch in rows.batches(samples):
        scored = rows.score(batch)
        for s, logprobs, entropies in zip(batch.samples, scored.logprobs, scored.entropies, strict=True):
            expected[s.problem_id, s.member] = (logprobs, entropies)
    constant = with_constant_prompts(scorer_of(policy), samples)
    batches = constant.batches(samples)
    assert sorted((s.problem_id, s.member) for batch in batches for s in batch.samples) == sorted(expected)
    for batch in batches:
        scored = constant.score(batch)
        for s, kept, *one in zip(batch.samples, scored.mask, scored.logprobs, scored.entropies, strict=True):
            for own, theirs in zip(one, expected[s.problem_id, s.member], strict=True):
                torch.testing.assert_close(own[kept], theirs[: len(s.completion)], atol=1e-5, rtol=0)


@pytest.mark.usefixtures("lora_path")
@pytest.mark.parametrize("change", [list, with_examples], ids=["prompts alone", "with common examples"])
def test_each_samples_gradient_is_that_of_its_own_positions(
    change: Callable[[list[Sample]], list[Sample]], make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy, samples = make_policy("gpt2", "float64"), change(make_samples(problems=3, group=3))
    whole = scorer_of(policy)
    constant = with_constant_prompts(whole, samples)
    found, everywhere = (gradients_by(scorer, samples) for scorer in (constant, whole))
    assert len(found) == len(samples)
    for s in samples:
        own = found[s.problem_id, s.member]
        expected = gradient_of(policy, detached_sum(policy, s))
        assert (own - expected).norm() <= 1e-9 * expected.norm()
        if len(s.prompt) > 1:
            assert (own - everywhere[s.problem_id, s.member]).norm() > 0.01 * own.norm()


def test_the_certificate_holds_for_constant_prompts_and_only_for_them(
    make_policy: MakePolicy, make_samples: MakeSamples
) -> None:
    policy = make_policy("gpt2", "float64")
    training, held_out = make_samples(problems=8, seed=1), make_samples(problems=16, seed=2)
    validation = advantage_validation(held_out)
    whole = scorer_of(policy)
    constant = with_constant_prompts(whole, [*training, *held_out])
    products = products_of(constant, training, validation)
    certificate = certificate_of(constant, training, products, validation)
    assert certificate.slope == pytest.approx(-1, abs=0.001)
    assert (certificate.sign_agreement, certificate.steps) == (1.0, 2)
    assert certificate_of(whole, training, products, validation).slope != pytest.approx(-1, abs=0.05)


def test_of_a_model_that_does_not_continue_from_a_cache_prompts_count_and_a_warning_says_so(
    policy: Policy, samples: list[Sample], caplog: pytest.LogCaptureFixture
) -> None:
    def forget(_module: object, _args: object, given: dict[str, object]) -> tuple[tuple[()], dict[str, object]]:
        return (), {name: value for name, value in given.items() if name != "cache"}

    policy.model.get_base_model().register_forward_pre_hook(forget, with_kwargs=True)
    scorer = scorer_of(policy)
    assert with_constant_prompts(scorer, samples) is scorer
    assert "gradients are those of the prompts' positions, too" in caplog.text
