"""The certificate, which stands on the update's own scorer, gradient and loss, refuses each wrong influence."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tasks.artifacts import read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.model.scoring.scorer import Scorer, scorer_for, with_constant_prompts
from tasks.objective.token_weights import TokenWeights
from tasks.records.selection import Selected
from tasks.select.certificate import Certificate
from tasks.select.losses import Validation
from tests.support.influence import certificate_of, products_of
from tests.support.policies import MakeSamples
from tests.support.selection_params import numbers, params, run_selection
from tests.support.validation import advantage_validation

Wrong = Callable[[Scorer, list[Sample], Validation], list[float]]


def by_constant_prompts(scorer: Scorer, samples: list[Sample], validation: Validation) -> list[float]:
    return products_of(with_constant_prompts(scorer, [*samples, *validation.samples]), samples, validation)


def without_last_token(scorer: Scorer, samples: list[Sample], validation: Validation) -> list[float]:
    cut = [replace(s, completion=s.completion[:-1] or s.completion) for s in validation.samples]
    return products_of(scorer, samples, replace(validation, samples=cut))


WRONG: dict[str, Wrong] = {
    "constant prompts": by_constant_prompts,
    "wrong sign": lambda *given: [-x for x in products_of(*given)],
    "half the size": lambda *given: [x / 2 for x in products_of(*given)],
    "another temperature": lambda scorer, *given: products_of(replace(scorer, temperature=1.1), *given),
    "without the last token": without_last_token,
    "another mean": lambda *given: products_of(*given, TokenWeights("grpo", longest=64)),
    "good validation samples alone": lambda scorer, samples, validation: products_of(
        scorer, samples, replace(validation, coefficients=[max(c, 0.0) for c in validation.coefficients])
    ),
    "the batch for validation": lambda scorer, samples, _: products_of(scorer, samples, advantage_validation(samples)),
}


@pytest.fixture
def certified(exact: Policy, make_samples: MakeSamples) -> Callable[[Wrong], Certificate]:
    def run(influence: Wrong) -> Certificate:
        training, held_out = make_samples(problems=8, seed=1), make_samples(problems=16, seed=2)
        validation = advantage_validation(held_out)
        scorer = scorer_for(exact, [*training, *held_out], 0.7)
        return certificate_of(scorer, training, influence(scorer, training, validation), validation)

    return run


def test_right_influence_has_a_slope_of_minus_one(certified: Callable[[Wrong], Certificate]) -> None:
    found = certified(products_of)
    assert found.slope == pytest.approx(-1, abs=1e-3)
    found.check()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_influence_is_refused(name: str, certified: Callable[[Wrong], Certificate]) -> None:
    with pytest.raises(GraftError, match="cannot be trusted to select"):
        certified(WRONG[name]).check()


def test_constant_prompts_are_shown_with_their_agreement_and_certified_by_exact_influences(layout: Layout) -> None:
    """Influence is that of constant prompts, the certificate that of exact ones of the same samples."""
    lines = []
    for prompts in ("exact", "constant"):
        run_selection(layout, params(prompts=prompts))
        lines.append([line.influence for line in read_jsonl(layout.selection(1), Selected)])
        assert numbers(layout)["certificate_slope"] == pytest.approx(-1, abs=0.05)
        assert ("constant_prompts_signs" in numbers(layout)) == (prompts == "constant")
    assert lines[0] != lines[1]
    assert 0 <= numbers(layout)["constant_prompts_signs"] <= 1
    assert -1 <= numbers(layout)["constant_prompts_correlation"] < 1
