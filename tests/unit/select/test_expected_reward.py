"""Influence against the effect of a step on the expected reward, which is exact where a completion is one token.

J(θ) = Σ_v p(v | prompt) r(prompt, v), mean over the prompts. Rewards depend on which of four kinds a prompt is.
"""

import random
from dataclasses import dataclass
from statistics import fmean

import pytest
import torch
from scipy.stats import spearmanr

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tests.support.influence import gradient_of, loss_of, measured, scorer_of, stepped

VOCABULARY, KINDS, PROMPTS = 300, 4, 24


@dataclass
class World:
    """Prompts, the reward of each token after them, and a policy."""

    policy: Policy
    prompts: list[tuple[int, ...]]
    rewards: torch.Tensor  # [PROMPTS, VOCABULARY], 0 or 1

    def probabilities(self) -> torch.Tensor:
        """[PROMPTS, VOCABULARY]"""
        return self.policy.model(input_ids=torch.tensor(self.prompts)).logits[:, -1].double().softmax(1)

    def expected(self) -> float:
        with torch.no_grad():
            return float((self.probabilities() * self.rewards).sum() / PROMPTS)

    def drawn(self, count: int, seed: int) -> list[Sample]:
        """Completions of the prompts in turn; advantages are relative to the expected reward."""
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

    def influence(self, samples: list[Sample], others: list[Sample]) -> list[float]:
        found = measured(scorer_of(self.policy, tokens=4096, temperature=1.0), samples, others)
        return [one.influence or 0.0 for one in found.each]

    def change(self, sample: Sample) -> float:
        """The effect on J of one gradient step on the sample's loss."""
        gradient, before = gradient_of(self.policy, loss_of(self.policy, [sample], 1, 1.0)), self.expected()
        with stepped(self.policy, gradient, 1e-3):
            return self.expected() - before


@pytest.fixture
def world(exact: Policy) -> World:
    rng = random.Random(0)
    prompts = [(2 + number % KINDS, *(rng.randrange(10, VOCABULARY) for _ in range(2))) for number in range(PROMPTS)]
    good = torch.tensor([[float(rng.random() < 0.2) for _ in range(VOCABULARY)] for _ in range(KINDS)])
    return World(exact, prompts, good.double()[torch.arange(PROMPTS) % KINDS])


def test_influence_ranks_steps_by_their_effect_on_the_expected_reward(world: World) -> None:
    """Measured: 1.00 against ∇J itself; against drawn completions 0.66 with 1024, 0.10 with 128, none with 32."""
    samples = world.drawn(48, seed=1)
    changes = [world.change(s) for s in samples]
    exact = world.influence(samples, world.everything())
    assert spearmanr(exact, changes).statistic >= 0.99
    assert all((i > 0) == (change > 0) for i, change in zip(exact, changes, strict=True))

    def rank(count: int) -> float:
        drawn = (world.influence(samples, world.drawn(count, seed)) for seed in (2, 3, 4))
        return fmean(spearmanr(found, changes).statistic for found in drawn)

    few, some, many = map(rank, (32, 128, 1024))
    assert few < some < many
    assert many >= 0.5
