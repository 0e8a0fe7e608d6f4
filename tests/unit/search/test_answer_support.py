"""Problems that no other answer checks, from the stage `search` with a tiny policy to the rewards of their groups."""

import json
from pathlib import Path

import pytest

from tasks.artifacts import read_jsonl, write_jsonl
from tasks.collect.task import run as collect
from tasks.layout import Layout
from tasks.model.policy import save_policy
from tasks.params.params import Params
from tasks.programs.contract import HEADER, prompt_of
from tasks.programs.sandbox.sandbox import Program, Sandbox
from tasks.records.problems import Problem
from tasks.records.search import Workflow
from tasks.reward.task import run as reward
from tasks.search.answer_support import TEXTS, count_support, perturb_question
from tasks.search.task import run as search
from tests.support.groups import read_rewarded
from tests.support.searches import make_problem
from tests.support.stage_params import shipped_params
from tests.support.writers import train_writer

PRODUCT, MIRRORED = HEADER + "    return n[0] * n[1]\n", HEADER + "    return n[1] * n[0]\n"
SUM, CONSTANT = HEADER + "    return n[0] + n[1] + n[2]\n", HEADER + "    return 12\n"
CODES = [PRODUCT, MIRRORED, SUM, CONSTANT]

CHANCE = make_problem("chance", ("3 boxes, 4 pens and 5 more?", 12))
PLAIN = make_problem("plain", ("6 boxes, 2 pens and 9 more?", 17))
HOPELESS = make_problem("hopeless", ("8 boxes, 7 pens and 2 more?", -1))
SURE = make_problem("sure", ("5 boxes, 8 pens and 3 more?", 40), ("4 boxes, 6 pens and 2 more?", 24))
ALIKE = make_problem("alike", (CHANCE.question, 12), ("3 boxes and 4 pens, and 5 more?", 12))
TRAIN = [CHANCE, PLAIN, HOPELESS, SURE, ALIKE]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy folder; its policy writes all CODES, for any question."""
    folder, questions = tmp_path_factory.mktemp("policy") / "0", [p.question for p in TRAIN if p is not ALIKE]
    corpus = [prompt_of(question, "scratch") for question in questions] + CODES
    save_policy(
        train_writer(corpus, questions, [PRODUCT, *CODES], epochs=120, rate=0.02, batch=20),
        folder,
        parent=None,
        round=0,
    )
    return folder


def params() -> Params:
    return shipped_params(
        policy={"max_new_tokens": 48},
        search={"samples": 32, "simulations": 36, "temperature": 1.0},
        sandbox={"allow_weak": True},
        update={"group_size": 36},
    )


def layout_of(root: Path, writer: Path, train: list[Problem]) -> Layout:
    layout = Layout(root)
    write_jsonl(layout.problems("train"), train)
    layout.policy(0).parent.mkdir(parents=True)
    layout.policy(0).symlink_to(writer)
    return layout


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, writer: Path) -> Layout:
    layout = layout_of(tmp_path_factory.mktemp("searched"), writer, TRAIN)
    search(layout, params(), 1)
    return layout


def index_of(layout: Layout) -> list[Workflow]:
    return read_jsonl(layout.workflows(1) / "index.jsonl", Workflow)


def test_only_right_workflows_that_no_other_answer_checks_are_run_on_the_perturbed_questions(
    searched: Layout, sandbox: Sandbox
) -> None:
    problems = {p.problem_id: p for p in TRAIN}
    index = index_of(searched)
    assert any(w.perturbed_results for w in index)
    for w in index:
        problem = problems[w.problem_id]
        assert bool(w.perturbed_results) == (w.value == 1 and not problem.answers_vary)
        if w.perturbed_results:
            texts = perturb_question(problem.question, problem.problem_id)
            assert len(texts) == TEXTS
            assert sandbox.run([Program(w.code, texts)]) == [w.perturbed_results]


def test_the_support_of_solved_problems_is_counted_and_adds_up_over_shards(searched: Layout) -> None:
    numbers = json.loads(searched.metrics("search", 1).read_text())
    support = {name: number for name, number in numbers.items() if name.startswith("solved_by_") and "samp" not in name}
    expected = {"solved_by_siblings": 1, "solved_by_agreement": 2, "solved_by_one_answer": 1}
    assert (numbers["solved"], support) == (4, expected)
    with_siblings = count_support([w for w in index_of(searched) if w.problem_id == "sure"], {"sure"})
    assert with_siblings == dict.fromkeys(expected, 0) | {"solved_by_siblings": 1}
    hopeless = [w for w in index_of(searched) if w.problem_id == "hopeless"]
    assert set(count_support(hopeless, {"sure"}).values()) == {0}


def rewarded(layout: Layout) -> dict[str, dict[str, float | None]]:
    """Problem → code → its reward."""
    collect(layout, params(), 1)
    reward(layout, params(), 1)
    return {
        group.problem_id: {m.code: own.reward for m, own in zip(group.members, rewards, strict=True)}
        for group, rewards in read_rewarded(layout.trajectories(1))
    }


def test_a_right_answer_earns_as_much_as_others_agree(searched: Layout) -> None:
    visits = {(w.problem_id, w.code): w.visits for w in index_of(searched)}
    earned = rewarded(searched)
    for name in ("chance", "alike"):  # a constant solves both questions of "alike" as well
        products, sums = visits[name, PRODUCT] + visits[name, MIRRORED], visits[name, SUM]
        assert earned[name][PRODUCT] == earned[name][MIRRORED] == products / max(products, sums)
        assert earned[name][SUM] == sums / max(products, sums)
        assert earned[name][CONSTANT] == 0
    assert earned["plain"][SUM] == 1
    assert set(earned["hopeless"].values()) == {0}
    assert earned["sure"][PRODUCT] == 1
