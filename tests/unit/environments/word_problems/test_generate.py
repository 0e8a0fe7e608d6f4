"""Laws of the generator: every template × phrasing is solved by its reference program, siblings included."""

import random
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.environments.word_problems.generate import generate, held_out_templates
from tasks.environments.word_problems.problem_writer import WordProblemParams
from tasks.environments.word_problems.quantities import shared_words, whole
from tasks.environments.word_problems.template import Template, draw_quantities, templates
from tasks.errors import GraftError
from tasks.programs.answer_check import is_right
from tasks.programs.contract import HEADER
from tasks.programs.operators.builtin import numbers
from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tests.support.stage_params import SHIPPED

SIZES = SHIPPED.problems.model_copy(update={"train": 200, "validation": 128, "test": 200, "dev": 100, "siblings": 2})
PARAMS = WordProblemParams(stories="fixed", phrasings=3, operations=4)
WORDS = "zero|one|once|single|pair|couple|both|first|second|third|fourth|fifth|quarters?|halves|quadruple"
MORE_NUMBER_WORDS = re.compile(rf"\b({WORDS})\b", re.IGNORECASE)
TEMPLATES = templates()
NUMBERED = [(template, phrasing) for template in TEMPLATES for phrasing in range(len(template.phrasings))]
CASES = [pytest.param(*case, id=f"{case[0].name}-{case[1]}") for case in NUMBERED]


@pytest.fixture(scope="module")
def generated() -> dict[Split, list[Problem]]:
    return generate(SIZES, PARAMS, 0)


def workflow(template: Template, phrasing: int) -> Callable[[str], int | float]:
    """The reference program as a function `solve(problem)` over the real operators."""
    quantities = [f"    {name} = n[{place}]\n" for place, name in enumerate(template.order(phrasing))]
    scope: dict[str, Any] = {"numbers": numbers}
    exec(f"{HEADER}{''.join(quantities)}    return {template.solution}\n", scope)
    solve: Callable[[str], int | float] = scope["solve"]
    return solve


def solves(solve: Callable[[str], int | float], question: str, answer: int | float) -> bool:
    return is_right(Result(status="ok", value=solve(question)), answer)


def short_and_positive(answer: int | float) -> bool:
    return answer > 0 and round(answer, 2) == answer and not (isinstance(answer, float) and answer.is_integer())


def template_of(problem: Problem) -> Template:
    return next(template for template in TEMPLATES if template.name == problem.template)


def phrasing_of(problem: Problem, question: str = "") -> int:
    """The phrasing that a question (by default its own) was made from, recognised by its fixed words."""
    patterns = [re.sub(r"\\{\w+\\}", ".+", re.escape(text)) for text in template_of(problem).phrasings]
    found = [i for i, p in enumerate(patterns) if re.fullmatch(p, question or problem.question, re.IGNORECASE)]
    assert len(found) == 1, question or problem.question
    return found[0]


@pytest.mark.parametrize(("template", "phrasing"), CASES)
def test_the_reference_program_gives_the_answer(template: Template, phrasing: int) -> None:
    solve = workflow(template, phrasing)
    draws = (draw_quantities(template, phrasing, random.Random(seed)) for seed in range(1000))
    sensible = list(islice((found for found in draws if found is not None), 20))
    assert len(sensible) == 20, "too few draws make sense: widen the quantities"
    for drawn, answer in sensible:
        cast = {"name": "Ada", "other": "Ben", "place": "market", "item": "pears"}
        texts = {name: text for name, (text, _) in drawn.items()}
        question = template.phrasings[phrasing].format(**cast, **texts)
        values = [drawn[name][1] for name in template.order(phrasing)]
        assert numbers(question) == pytest.approx([float(value) for value in values])
        assert solves(solve, question, float(answer))
        assert (answer * 100).denominator == 1
        assert answer > 0
        assert answer not in values


def test_reference_programs_solve_every_problem_and_sibling(generated: dict[Split, list[Problem]]) -> None:
    for problem in (problem for problems in generated.values() for problem in problems):
        solve = workflow(template_of(problem), phrasing_of(problem))
        assert solves(solve, problem.question, problem.answer)
        assert short_and_positive(problem.answer)
        assert len({problem.answer, *(sibling.answer for sibling in problem.siblings)}) == 3
        for sibling in problem.siblings:
            assert solves(solve, sibling.question, sibling.answer)
            assert short_and_positive(sibling.answer)
            assert phrasing_of(problem, sibling.question) == phrasing_of(problem)


def test_siblings_have_names_of_their_own(generated: dict[Split, list[Problem]]) -> None:
    """A workflow that looks for a name is right once and wrong on the siblings."""
    families = [
        [set(question.split()) & set(shared_words().names) for question in p.questions] for p in generated["train"]
    ]
    named = [family for family in families if all(family)]
    assert len(named) > 50
    assert sum(family[0] == family[1] for family in named) < 0.2 * len(named)


@pytest.mark.parametrize(("template", "phrasing"), CASES)
def test_no_fixed_word_is_a_number(template: Template, phrasing: int) -> None:
    fixed = re.sub(r"\{\w+\}", "", template.phrasings[phrasing])
    for text in (fixed, *template.items, *shared_words().names, *shared_words().places):
        assert numbers(text) == [], text
        assert not MORE_NUMBER_WORDS.search(text), text
    used = set(re.findall(r"[a-z]+", template.solution))
    assert used <= set(template.order(phrasing))
    assert len(set(template.order(phrasing))) == len(template.order(phrasing))


@settings(max_examples=5)
@given(seed=st.integers(0, 2**31), unseen=st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), test=st.integers(1, 60))
def test_the_share_of_unseen_templates(seed: int, unseen: float, test: int) -> None:
    sizes = SIZES.model_copy(update={"test": test, "train": 60, "validation": 30, "siblings": 0})
    splits = generate(sizes, PARAMS.model_copy(update={"unseen_template_share": unseen}), seed)
    learnt = splits["train"] + splits["validation"]
    held_out = {template.name for template in held_out_templates(TEMPLATES, seed)} if unseen else set()
    assert not {problem.template for problem in learnt} & held_out
    assert all(problem.seen for problem in learnt)
    assert all(problem.seen == (problem.template not in held_out) for problem in splits["test"])
    assert sum(not problem.seen for problem in splits["test"]) == round(test * unseen)


@given(seed=st.integers(0, 2**31), operations=st.integers(1, 4))
def test_no_operator_is_in_held_out_templates_alone(seed: int, operations: int) -> None:
    templates = [template for template in TEMPLATES if template.operations <= operations]
    held_out = held_out_templates(templates, seed)
    seen = {operator for template in templates if template not in held_out for operator in template.operators}
    assert {operator for template in held_out for operator in template.operators} <= seen


@pytest.mark.parametrize(("operations", "used", "unseen"), [(2, 24, 6), (4, 48, 12)])
def test_no_solution_is_longer_than_asked(operations: int, used: int, unseen: int) -> None:
    splits = generate(SIZES, PARAMS.model_copy(update={"operations": operations}), 0)
    problems = [problem for split in splits.values() for problem in split]
    assert {problem.operations for problem in problems} == set(range(1, operations + 1))
    assert len({problem.template for problem in problems}) == used
    assert len({problem.template for problem in splits["test"] if not problem.seen}) == unseen
    assert not {p.template for p in splits["train"]} & {p.template for p in splits["test"] if not p.seen}


def test_problems_depend_on_the_seed_but_no_split_on_the_number_of_train_problems(
    generated: dict[Split, list[Problem]],
) -> None:
    fewer, others = (generate(SIZES.model_copy(update={"train": 20}), PARAMS, seed) for seed in (0, 1))
    assert all(fewer[split] == generated[split] != others[split] for split in ("test", "validation"))


def test_too_many_problems_name_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = Template("narrow", "a + b", ("{a} and {b}?",), {"a": whole(12, 14), "b": whole(12, 14)})
    monkeypatch.setattr("tasks.environments.word_problems.generate.templates", lambda: (narrow,))
    monkeypatch.setattr("tasks.environments.word_problems.problem_writer.TRIES", 200)
    sizes, params = SIZES.model_copy(update={"siblings": 0}), PARAMS.model_copy(update={"unseen_template_share": 0.0})
    with pytest.raises(GraftError, match="template 'narrow' gives no further question"):
        generate(sizes, params, 0)
