"""Influence of a policy's samples, and what it is made of by plain autograd."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.micro_batches import RowLayout
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.params.fields import Loss
from tasks.select.certificate import Certificate, certify
from tasks.select.losses import Validation
from tasks.select.sample_gradients import lora_factors
from tasks.select.tracin import Estimator, Influences, influences
from tests.support.plain_scores import sample_logprobs
from tests.support.update_params import grpo_params
from tests.support.validation import advantage_validation

BY_TOKEN = TokenWeights("dapo", longest=64)


def scorer_of(policy: Policy, layout: RowLayout = "packed", tokens: int = 2048, temperature: float = 0.7) -> Scorer:
    return Scorer(policy.model, policy.tokenizer.pad_token_id, temperature, layout, tokens)


def products_of(
    scorer: Scorer, samples: list[Sample], validation: Validation, averaging: TokenWeights = BY_TOKEN
) -> list[float]:
    """⟨∇L_i, ∇L_val⟩ of each sample."""
    return [score.product or 0.0 for score in influences(scorer, samples, averaging, validation).samples]


def certificate_of(
    scorer: Scorer, samples: list[Sample], products: list[float], validation: Validation, loss: Loss = "dapo"
) -> Certificate:
    return certify(scorer, samples, products, validation, grpo_params(loss=loss), 64, seed=0)


def measured(scorer: Scorer, samples: list[Sample], others: list[Sample], **options: Any) -> Influences:
    """By token."""
    return influences(scorer, samples, BY_TOKEN, advantage_validation(others), Estimator(**options))


def adapter(policy: Policy) -> list[torch.Tensor]:
    return [module.weight for module in lora_factors(policy.model).values()]


def flat(gradients: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients])


def loss_of(policy: Policy, samples: list[Sample], denominator: int, temperature: float = 0.7) -> torch.Tensor:
    """-Σ c A Σ log p / M."""
    sums = sample_logprobs(policy.model, samples, temperature).sum(1)
    return -(sums @ sums.new_tensor([s.count * s.advantage for s in samples])) / denominator


def gradient_of(policy: Policy, loss: torch.Tensor) -> torch.Tensor:
    """Over the adapter, [P]."""
    return flat(torch.autograd.grad(loss, adapter(policy)))


def score_rows(policy: Policy, samples: list[Sample]) -> torch.Tensor:
    """∇ Σ log p of each sample alone, [n, P]."""
    return torch.stack([gradient_of(policy, sample_logprobs(policy.model, [s], 0.7).sum()) for s in samples])


@contextmanager
def stepped(policy: Policy, gradient: torch.Tensor, rate: float) -> Iterator[None]:
    """The policy after one gradient step, which is taken back at the end; without autograd."""
    weights = adapter(policy)
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight, part in zip(weights, gradient.split([weight.numel() for weight in weights]), strict=True):
            weight -= rate * part.view_as(weight)
        yield
        for weight, old in zip(weights, before, strict=True):
            weight.copy_(old)


def checkpoint(policy: Policy) -> list[int]:
    """Turn gradient checkpointing on. The list gets an entry whenever the first layer is computed."""
    policy.model.activation_checkpointing_enable({"use_reentrant": False})
    policy.model.train()  # transformers checkpoints only then; no layer here has dropout
    calls: list[int] = []
    policy.model.get_base_model().model.layers[0].mlp.register_forward_pre_hook(lambda *_args: calls.append(1))
    return calls


class Uneven(nn.Module):
    """A model that calls one adapted layer twice, one once for nothing, one once and another never."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.twice, self.vain, self.once, self.never = (nn.Linear(6, 6) for _ in range(4))
        self.config: dict[str, Any] = {}

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.vain(self.twice(self.embedding(input_ids)).tanh())
        self.vain(x)
        return self.once(self.twice(x)).square().sum((1, 2))  # type: ignore[no-any-return]


def uneven_model() -> Any:
    """With an adapter, in float64."""
    torch.manual_seed(0)
    config = LoraConfig(r=2, target_modules=["twice", "vain", "once", "never"], init_lora_weights=False)
    return get_peft_model(Uneven(), config).double()
