"""The rewards of benchmarks.selection_real_model: they err where they are meant to, never on validation problems."""

from typing import Any

import pytest

from benchmarks.learning import LearningRun
from benchmarks.selection_real_model import FLIPPED, PARAMS, TERMS, VARIANTS, SelectionRun, figures
from benchmarks.support.workspace import PROJECT
from tasks.params.file import overridden
from tasks.records import Problem, Result, Sibling

pytestmark = pytest.mark.nightly

RIGHT = [Result(status="ok", value=value) for value in (5, 9)]
OWN_ALONE = [RIGHT[0], Result(status="ok", value=8)]


def problem(split: str) -> Problem:
    siblings = [Sibling(question="4 and 5?", answer=9)]
    return Problem(problem_id=f"{split}-0000-sum", question="2 and 3?", answer=5, source="x", siblings=siblings)


@pytest.fixture
def terms() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(TERMS, names)
    return names


@pytest.mark.parametrize("results", [RIGHT, OWN_ALONE])
def test_a_share_of_the_training_rewards_is_inverted_and_none_of_validation(
    terms: dict[str, Any], results: list[Result]
) -> None:
    exact = float(results == RIGHT)
    wrong = sum(terms["flipped"](problem("train"), str(i), results) != exact for i in range(2000)) / 2000
    assert wrong == pytest.approx(FLIPPED, abs=0.04)
    assert {terms["flipped"](problem("validation"), str(i), results) for i in range(200)} == {exact}


def test_siblings_count_on_validation_problems_alone(terms: dict[str, Any]) -> None:
    assert [terms["answers"](problem(split), "", OWN_ALONE) for split in ("train", "validation")] == [1, 0]
    assert [terms["answers"](problem(split), "", RIGHT) for split in ("train", "validation")] == [1, 1]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_exact_rewards_are_those_of_problem_and_siblings(terms: dict[str, Any], split: str) -> None:
    assert [terms["exact"](problem(split), "", results) for results in (RIGHT, OWN_ALONE)] == [1, 0]


def test_the_trusted_alone_are_as_many_as_selection_has_and_are_learned_in_as_many_steps() -> None:
    file = PROJECT / "params.yaml"
    text = file.read_text()
    params = {name: overridden(file, text, [*PARAMS, *given])[1] for name, given in VARIANTS.items()}
    selected, alone = params["positive"], params["trusted"]
    assert alone.search.problems == selected.influence.n
    assert alone.search.simulations == alone.update.group_size == selected.influence.completions
    steps = {params[name].problems.train // params[name].update.prompts_per_step for name in ("none", "positive")}
    assert {alone.search.problems // alone.update.prompts_per_step} == steps


def test_the_gain_is_what_selection_adds() -> None:
    names = ("pass_at_1_greedy", "sampled_mean", "pass_at_10")
    ends = {variant: dict.fromkeys(names, level) for variant, level in (("none", 0.25), ("positive", 0.5))}
    runs = {("flipped", v): [SelectionRun(LearningRun(ends["none"], end, 60.0), 1.0, 2.0)] for v, end in ends.items()}
    runs["exact", "trusted"] = [SelectionRun(LearningRun(ends["none"], dict.fromkeys(names, 0.375), 60.0), 1.0, 2.0)]
    found = figures(runs)
    assert found["flipped_gain_over_trusted"] == 0.125
    assert (found["flipped_gain"], found["flipped_positive_minutes"]) == (0.25, 1.0)
    assert "answers_gain" not in found
