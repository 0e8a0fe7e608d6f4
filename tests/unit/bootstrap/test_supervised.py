"""Supervised training fits a few examples; padding, row order and the global random state have no effect."""

import random
from typing import Any

import pytest
import torch

from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.supervised import (
    FEWEST_STEPS,
    PROMPT_WEIGHT,
    TrainingExample,
    _backward_scored,
    _loss,
    epochs_for,
    samples_of,
    train_supervised,
)
from tasks.model.scoring.layouts import collate
from tasks.model.scoring.micro_batches import RowLayout
from tasks.model.scoring.scorer import Scorer
from tests.support.plain_scores import completion_logprobs


class Vocabulary:
    """The attributes that `build_scratch_model` reads."""

    pad_token_id, eos_token_id = 0, 1

    def __len__(self) -> int:
        return 40


def model_of(seed: int = 0, hidden: int = 32) -> Any:
    return build_scratch_model(Vocabulary(), hidden=hidden, layers=1, seed=seed)


def examples(count: int = 5) -> list[TrainingExample]:
    rng = random.Random(0)

    def tokens(low: int, high: int) -> list[int]:
        return [rng.randrange(2, 40) for _ in range(rng.randint(low, high))]

    return [TrainingExample(tokens(3, 9), [*tokens(1, 6), 1]) for _ in range(count)]


def train(model: Any, rows: list[TrainingExample], epochs: int = 60, batch: int = 2, seed: int = 0) -> float:
    return train_supervised(model, rows, epochs, learning_rate=0.01, batch=batch, pad=0, seed=seed)[0]


def test_a_few_examples_are_memorised() -> None:
    model, rows = model_of(), examples()
    batch = collate([e.prompt for e in rows], [e.completion for e in rows], pad=0)
    before = completion_logprobs(model, batch, 1.0)[batch.mask].detach()
    loss = train(model, rows)
    after = completion_logprobs(model, batch, 1.0)[batch.mask].detach()
    assert float(before.mean()) < -3
    assert float(after.min()) > -0.1
    assert loss < 0.5  # the rest is the prompts', which are not predictable
    assert not model.training


def test_few_demonstrations_are_passed_over_more_often() -> None:
    for batches in (1, 2, 19, 1000):
        steps = epochs_for("auto", batches) * batches
        assert max(8 * batches, FEWEST_STEPS) <= steps < max(8 * batches + 1, FEWEST_STEPS + batches)
        assert epochs_for(3, batches) == 3


def by_hand(model: Any, rows: list[TrainingExample]) -> float:
    """Each example alone, without padding, from all of its logits."""
    total, count = 0.0, 0
    for example in rows:
        ids = torch.tensor([[*example.prompt, *example.completion]])
        scores = model(input_ids=ids).logits[0].log_softmax(-1)
        nll = [-float(scores[place - 1, ids[0, place]]) for place in range(1, ids.shape[1])]
        seen = len(example.prompt) - 1
        total += PROMPT_WEIGHT * sum(nll[:seen]) + sum(nll[seen:])
        count += len(example.completion)
    return total / count


def test_the_loss_is_that_of_the_rows_without_padding() -> None:
    model, rows = model_of(), examples(6)
    with torch.no_grad():
        for some in (rows, rows[::-1], rows[:1], rows[2:5]):
            assert float(_loss(model, some, pad=0)) == pytest.approx(by_hand(model, some), abs=1e-5)
            assert float(_loss(model, some, pad=7)) == pytest.approx(by_hand(model, some), abs=1e-5)


@pytest.mark.parametrize("layout", ["packed", "rows"])
def test_a_base_learns_completions_alone_whatever_the_micro_batches(layout: RowLayout) -> None:
    model, rows = model_of(), examples(9)
    batch = collate([e.prompt for e in rows], [e.completion for e in rows], pad=0)
    loss = -completion_logprobs(model, batch, 1.0)[batch.mask].mean()
    loss.backward()
    weights = [weight for weight in model.parameters() if weight.grad is not None]
    wanted = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
    for tokens in (16, 2048):
        model.zero_grad()
        scorer = Scorer(model, 0, 1.0, layout, tokens)
        assert len(scorer.batches(samples_of(rows))) == 1 or tokens == 16
        assert _backward_scored(scorer, True, rows) == pytest.approx(float(loss.detach()), abs=1e-5)
        gradient = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
        assert float((gradient - wanted).norm()) <= 1e-4 * float(wanted.norm())


def test_a_scratch_model_depends_on_its_seed_and_keeps_the_random_state() -> None:
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    weights = [next(model_of(seed).parameters()).clone() for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.random.get_rng_state(), state)
