"""Influence against what a step really does to the expected reward, which is exact where a completion is one token.

J(θ) = Σ_v p(v | prompt) r(prompt, v), mean over the prompts. Rewards depend on which of four kinds a prompt is.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

import pytest
import torch
from scipy.stats import spearmanr

from tasks.influence.sample_gradients import lora_factors
from tasks.influence.tracin import influences
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tests.support.plain_scores import sample_logprobs
from tests.support.validation import advantage_validation

VOCABULARY, KINDS, PROMPTS = 300, 4, 24
BY_TOKEN = TokenWeights("dapo", longest=4)


@dataclass
class World:
    """Prompts, what each token is worth after them, and a policy."""

    policy: Policy
    prompts: list[tuple[int, ...]]
    rewards: torch.Tensor  # [PROMPTS, VOCABULARY], 0 or 1

    def probabilities(self) -> torch.Tensor:
        """[PROMPTS, VOCABULARY]"""
        ids = torch.tensor(self.prompts)
        return self.policy.model(input_ids=ids).logits[:, -1].double().softmax(1)

    def expected(self) -> float:
        with torch.no_grad():
            return float((self.probabilities() * self.rewards).sum() / PROMPTS)

    def drawn(self, count: int, seed: int) -> list[Sample]:
        """So many completions of prompts in turn; advantages are relative to the expected reward."""
        rng, probabilities = random.Random(seed), self.probabilities().detach()
        samples = []
        for number in range(count):
            prompt = number % PROMPTS
            (token,) = rng.choices(range(VOCABULARY), probabilities[prompt].tolist())
            reward = float(self.rewards[prompt, token])
            mean = float((probabilities[prompt] * self.rewards[prompt]).sum())
            samples.append(Sample(f"p{prompt}", number, self.prompts[prompt], (token,), (), reward - mean))
        return samples

    def everything(self) -> list[Sample]:
        """All completions, each weighed by its probability: the gradient of their loss is -∇J."""
        worth = (self.probabilities().detach() * self.rewards).tolist()
        return [
            Sample(f"p{place}", token, prompt, (token,), (), worth[place][token])
            for place, prompt in enumerate(self.prompts)
            for token in range(VOCABULARY)
            if worth[place][token]
        ]

    def influence(self, samples: list[Sample], judges: list[Sample]) -> list[float]:
        scorer = Scorer(self.policy.model, self.policy.tokenizer.pad_token_id, 1.0, tokens=4096)
        found = influences(scorer, samples, BY_TOKEN, advantage_validation(judges, BY_TOKEN)).each
        return [one.influence or 0.0 for one in found]

    def change(self, sample: Sample, rate: float = 1e-3) -> float:
        """What a gradient step on its loss makes of J."""
        weights = [module.weight for module in lora_factors(self.policy.model).values()]
        loss = -sample.advantage * sample_logprobs(self.policy.model, [sample], 1.0).sum()
        gradient, before = torch.autograd.grad(loss, weights), self.expected()
        with torch.no_grad():
            for weight, own in zip(weights, gradient, strict=True):
                weight -= rate * own
            change = self.expected() - before
            for weight, own in zip(weights, gradient, strict=True):
                weight += rate * own
        return change


@pytest.fixture
def world(make_policy: Callable[..., Policy]) -> World:
    rng = random.Random(0)
    prompts = [(2 + number % KINDS, *(rng.randrange(10, VOCABULARY) for _ in range(2))) for number in range(PROMPTS)]
    good = torch.tensor([[float(rng.random() < 0.2) for _ in range(VOCABULARY)] for _ in range(KINDS)])
    return World(make_policy("gpt2", "float64"), prompts, good.double()[torch.arange(PROMPTS) % KINDS])


def test_influence_ranks_steps_by_what_they_do_to_the_expected_reward(world: World) -> None:
    """Measured: 1.00 against ∇J itself; against drawn completions 0.66 with 1024, 0.10 with 128, none with 32."""
    samples = world.drawn(48, seed=1)
    changes = [world.change(s) for s in samples]
    exact = world.influence(samples, world.everything())
    assert spearmanr(exact, changes).statistic >= 0.99
    assert all((i > 0) == (change > 0) for i, change in zip(exact, changes, strict=True))
    ranks = {
        count: fmean(
            spearmanr(world.influence(samples, world.drawn(count, seed)), changes).statistic for seed in (2, 3, 4)
        )
        for count in (32, 128, 1024)
    }
    assert ranks[32] < ranks[128] < ranks[1024]
    assert ranks[1024] >= 0.5
