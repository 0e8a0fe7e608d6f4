"""Law: several processes find the influence of one, each of them the whole, however uneven their shares are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.model.policy import Policy, load_policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer
from tasks.objective.token_weights import TokenWeights
from tasks.select.certificate import Certificate, certify
from tasks.select.tracin import Influences, Measure, influences
from tests.support.process_group import in_processes
from tests.support.tiers import nightly_but_first
from tests.support.validation import advantage_validation

BY_TOKEN = TokenWeights("dapo", longest=64)

PRECISION = {"gpt2": 1e-9, "qwen2": 1e-5}
"""Of policies by their architecture: in float64 and in float32."""

ROOM, LITTLE = 2**30, 300_000
"""Bytes: for the gradients of all rows, and for those of a few."""

Case = tuple[int, int, dict[str, Any]]
"""The problems of a batch, bytes, measure."""

CASES: list[Case] = [
    (5, LITTLE, {}),
    (1, ROOM, {}),
    (5, LITTLE, {"similarity": "local"}),
    (1, ROOM, {"similarity": "local"}),
    (5, ROOM, {"similarity": "local", "leave_group_out": True}),
]


Outcome = tuple[Influences, Certificate | None]


def load(folder: Path) -> dict[str, Policy]:
    policies = {kind: load_policy(folder / kind) for kind in PRECISION}
    policies["gpt2"].model.double()
    return policies


def measured(folder: Path, training: list[Sample], judges: list[Sample]) -> dict[str, list[Outcome]]:
    """By architecture, influence in each case; with a certificate where no other case says as much."""
    torch.set_num_threads(1)
    found: dict[str, list[Outcome]] = {}
    for kind, policy in load(folder).items():
        scorer = Scorer(policy.model, policy.tokenizer.pad_token_id, 0.7, tokens=64)
        for problems, budget, measure in CASES:
            samples = [s for s in training if s.problem_id in [f"p{number}" for number in range(problems)]]
            validation = advantage_validation(samples if "leave_group_out" in measure else judges)
            own = influences(scorer, samples, BY_TOKEN, validation, Measure(budget=budget, **measure))
            products = [s.product or 0.0 for s in own.each]
            known = None if measure else certify(scorer, samples, products, BY_TOKEN, validation, seed=0)
            found.setdefault(kind, []).append((own, known))
    return found


def numbers(found: Influences) -> dict[str, torch.Tensor]:
    columns = {name: [vars(s)[name] for s in found.each] for name in ("influence", "product", "gradient_norm")}
    gradients = {
        name: torch.cat([own.flatten() for own in of.values()])
        for name, of in (("gradient", found.gradient), ("train_gradient", found.train_gradient))
    }
    return gradients | {name: torch.tensor(own, dtype=torch.float64) for name, own in columns.items()}


@pytest.mark.slow
@pytest.mark.parametrize("processes", nightly_but_first([2, 4]))
def test_several_processes_find_the_influence_of_one(
    processes: int,
    tmp_path: Path,
    save_tiny: Callable[..., None],
    make_samples: Callable[..., list[Sample]],
) -> None:
    """One problem has fewer rows than there are processes."""
    for kind in PRECISION:
        save_tiny(tmp_path / kind, kind=kind)
    training, judges = make_samples(problems=5, seed=3), make_samples(problems=4, seed=4)
    alone = measured(tmp_path, training, judges)
    found = in_processes(processes, tmp_path, measured, tmp_path, training, judges)
    for kind, precision in PRECISION.items():
        of_each = [own[kind] for own in found]
        for case, expected, first, *others in zip(CASES, alone[kind], *of_each, strict=True):
            for name, theirs in numbers(expected[0]).items():
                off = (numbers(first[0])[name] - theirs).norm()
                assert off <= precision * theirs.norm(), (kind, *case, name)
            assert (first[1] is None) == (expected[1] is None)
            if first[1] and expected[1]:
                assert vars(first[1]) == pytest.approx(vars(expected[1]), rel=1e-2)
            for other in others:  # no process drifts away from the others
                assert other[0].each == first[0].each
                for theirs, own in zip(numbers(other[0]).values(), numbers(first[0]).values(), strict=True):
                    assert torch.equal(theirs, own)
                assert other[1] == first[1]
