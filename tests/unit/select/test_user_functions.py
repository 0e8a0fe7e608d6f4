"""A user's loss, advantages and selection: influence is the derivative of the loss itself, and what is no such function
is refused in one line."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tasks.artifacts import read_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy
from tasks.model.sample import Sample
from tasks.objective.advantages import advantages_of
from tasks.objective.losses import first_step_losses
from tasks.objective.surrogates import policy_loss
from tasks.objective.token_weights import TokenWeights
from tasks.records.selection import Selected
from tasks.select.certificate import certify
from tasks.select.strategies import ScoredSamples, keep
from tasks.select.tracin import influences
from tasks.update.gradient import objective_of
from tests.support.extensions import examples_project
from tests.support.influence import scorer_of
from tests.support.policies import MakeSamples
from tests.support.selection_params import numbers, params, run_selection
from tests.support.update_params import grpo_params
from tests.support.validation import advantage_validation


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    examples_project(tmp_path, monkeypatch)
    sys.path.insert(0, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("name", "mean"), [("focal:focal", "tokens"), ("focal:by_completion", "completions")])
@pytest.mark.usefixtures("root")
def test_the_certificate_holds_for_the_losss_own_derivative_and_for_no_other(
    name: str, mean: str, exact: Policy, make_samples: MakeSamples
) -> None:
    assert policy_loss(name).mean == mean
    scorer, samples, averaging = scorer_of(exact), make_samples(problems=8, seed=1), TokenWeights(name, 64)
    validation, update = advantage_validation(make_samples(problems=16, seed=2)), grpo_params(loss=name)
    slopes = []
    for losses in (partial(first_step_losses, objective_of(update)), None):
        found = influences(scorer, samples, averaging, validation, token_losses=losses)
        products = [one.product or 0.0 for one in found.samples]
        slopes.append(certify(scorer, samples, products, validation, update, 64, seed=0))
    right, wrong = slopes
    right.check()
    assert right.slope == pytest.approx(-1, abs=1e-3)
    with pytest.raises(GraftError, match="cannot be trusted to select"):
        wrong.check()


def test_the_stage_finds_all_three_in_the_projects_folder(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    examples_project(layout.root, monkeypatch)
    own = {"loss": "focal:focal", "advantages": "ranks:ranks"}
    run_selection(layout, params(own, selection="fair:best_of_each", share=0.1, similarity="dot"))
    assert numbers(layout)["certificate_slope"] == pytest.approx(-1, abs=0.02)
    lines = read_jsonl(layout.selection(1), Selected)
    by_problem = [[line for line in lines if line.problem_id == name] for name in {line.problem_id for line in lines}]
    for group in by_problem:
        able = [line for line in group if line.advantage]
        assert sum(line.selected for line in group) == min(len(able), 1)
        assert all(line.influence == max(each.influence or 0 for each in able) for line in group if line.selected)
    assert any(line.selected for line in lines)
    assert {abs(line.advantage) for line in lines} <= {0.0, 0.5, 1.0}


def test_a_built_in_function_by_its_module_is_the_built_in_one(samples: list[Sample]) -> None:
    logprobs, ratio = torch.randn(3, 5, requires_grad=True), torch.rand(3, 5) * 2
    advantages, objective = torch.tensor([[1.0], [-1.0], [0.5]]), objective_of(grpo_params())
    theirs, ours = (
        policy_loss(name).surrogate(logprobs, ratio, advantages, objective)
        for name in ("cispo", "tasks.objective.surrogates:capped")
    )
    assert all(map(torch.equal, theirs, ours))
    measured = ScoredSamples(samples, [*range(len(samples))], [True] * len(samples), [0] * len(samples), 0.0, 0.5)
    assert keep("tasks.select.strategies:top", measured) == keep("top", measured)


MEASURED = ScoredSamples([], [0.1, 0.2], [True, False], [1, 2], 0.0, 0.5)
TENSORS = (torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2, 1), objective_of(grpo_params()))
CALLS: dict[str, Callable[[], Any]] = {
    "update.loss": lambda: policy_loss("wrong:own").surrogate(*TENSORS),
    "update.advantages": lambda: advantages_of("wrong:own", [[1.0, None], [0.0]]),
    "influence.selection": lambda: keep("wrong:own", MEASURED),
}


@pytest.mark.parametrize(("param", "text", "message"), [
    ("update.loss", "def own(*given): return given[0]", r"wrong:own returned torch.float32 \[2, 3\] for torch.float32 "
     r"\[2, 3\]; return the loss of each token, and a bool tensor of where its clip is active"),
    ("update.loss", "def own(*given): return given[0].sum(), given[0] > 0", r"wrong:own returned .*\[\], torch.bool"),
    ("update.loss", "own = 0.5", r"wrong:own is 0\.5; define a function of logprobs, ratio, advantages and objective"),
    ("update.loss", "def own(*given): return 1 / 0", r"wrong:own: ZeroDivisionError: .* \(wrong\.py:1\); fix it"),
    ("update.loss", "other = 1", r"wrong:own: module 'wrong' has no attribute 'own'; name a function, as module:func"),
    ("update.advantages", "def own(groups): return [[1.0, 2.0]]", r"wrong:own: zip\(\) .*; return a list for each"),
    ("update.advantages", "def own(groups): return [[1.0, 2.0], [float('nan')]]", "wrong:own: an advantage is nan; "),
    ("update.advantages", "def own(groups): return groups and None", "wrong:own: .*NoneType.*; return a list for each"),
    ("influence.selection", "def own(measured): return [True]", r"wrong:own returned \[True\]; return a list "),
    ("influence.selection", "def own(measured): return measured.influences", r"wrong:own returned \[0\.1, 0\.2\]; "),
])  # fmt: skip
def test_what_is_no_such_function_is_one_line(param: str, text: str, message: str, root: Path) -> None:
    (root / "wrong.py").write_text(f"{text}\n")
    with pytest.raises(GraftError, match=f"^{param}: {message}") as error:
        CALLS[param]()
    assert "\n" not in str(error.value)


def test_a_sample_without_a_signal_and_a_failed_reward_are_never_learned_from(root: Path) -> None:
    (root / "wrong.py").write_text("def every(measured): return [True] * 2\ndef ones(groups): return [[1.0] * 2]\n")
    assert keep("wrong:every", MEASURED) == [True, False]
    assert advantages_of("wrong:ones", [[0.5, None]]) == [[1.0, 0.0]]
