"""Demonstrations of a warm start: of a file or of worked solutions; nothing that is tested on is among them."""

import json
import logging
from pathlib import Path

import pytest

from recipes.code.environment import Code
from tasks.artifacts import read_json, read_jsonl
from tasks.environments.protocol import Environment
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.environments.tags import hard_format
from tasks.environments.workflow import WorkflowEnvironment
from tasks.errors import GraftError
from tasks.known_problems import KnownProblems, question_key
from tasks.layout import KNOWN, Layout
from tasks.params.params import Params, contradictions
from tasks.problems.demonstrations import demonstrations_of
from tasks.problems.task import run
from tasks.records.problems import Demonstrations, Problem, Sibling, Split
from tests.support.stage_params import shipped_params, stage_params

TEST = "A farmer has 12 red hens and buys 7 brown hens on Monday. How many hens has he got now?"
SIBLING = "A baker fills 9 large trays and then 4 small trays with rolls. How many trays are filled?"
LEAKS = [
    f"  {TEST.upper()}",
    SIBLING,
    TEST.replace("12", "15").replace("Monday", "Friday"),
    TEST.replace("How many", "So how many"),
]
OTHERS = ["How far is it from 3 to 9?", "Ann reads 4 pages a day for a week. How many pages are that?"]


def problem(name: str, question: str, **more: object) -> Problem:
    return Problem.model_validate({"problem_id": name, "question": question, "answer": 1, "source": "mine", **more})


def splits(train: list[Problem]) -> dict[Split, list[Problem]]:
    tested = problem("line-1", TEST, siblings=[Sibling(question=SIBLING, answer=13)])
    return {"train": train, "validation": [], "test": [tested], "dev": [], "confirm": []}


def params(epochs: int | str = 2, file: str | None = "mine.jsonl", base: str = "some/model") -> Params:
    return shipped_params(policy={"base": base}, bootstrap={"epochs": epochs, "demonstrations": file})


def write(root: Path, questions: list[str]) -> None:
    lines = [json.dumps({"question": question, "completion": "1"}) for question in questions]
    (root / "mine.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("base", ["some/model", "scratch"])
def test_a_line_that_asks_what_is_tested_on_or_nearly_is_left_out_and_named(
    base: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, [OTHERS[0], *LEAKS, OTHERS[1]])
    found = demonstrations_of(tmp_path, params(base=base), WorkflowEnvironment(), splits([]))
    assert [example.question for example in found.examples] == OTHERS
    assert found.tested == sorted(question_key(question) for question in (TEST, SIBLING))
    assert (
        "mine.jsonl:2: 4 of 6 demonstrations ask what a test problem asks, or nearly, and are left out" in caplog.text
    )
    write(tmp_path, LEAKS)
    with pytest.raises(GraftError, match=r"^mine\.jsonl:1: 4 of 4 demonstrations .*, and none is left; add others\Z"):
        demonstrations_of(tmp_path, params(), WorkflowEnvironment(), splits([]))


def test_a_line_that_is_no_demonstration_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"question": "1?", "completion": "1"}\n{"question": "2?"}\n')
    with pytest.raises(GraftError, match=r"mine\.jsonl:2: .*completion"):
        demonstrations_of(tmp_path, params(), WorkflowEnvironment(), splits([]))


GSM8K = {"answer": "He has 12 + 7 = <<12+7=19>>19 hens.\nThat is all.\n#### 19"}
MATH = {"solution": r"Half of it is \boxed{\frac12}."}


@pytest.mark.parametrize(("environment", "texts"), [
    (TaggedAnswer(), [
        "<think>\nHe has 12 + 7 = 19 hens.\nThat is all.\n</think>\n<answer>\n19\n</answer>",
        "<think>\n" + MATH["solution"] + "\n</think>\n<answer>\n\\frac12\n</answer>",
    ]),
    (WorkflowEnvironment(), []),
    (Code(), []),
], ids=["answer", "workflow", "code"])  # fmt: skip
def test_worked_solutions_of_a_file_are_learnt_where_completions_are_texts(
    environment: Environment, texts: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = [
        problem("hens", OTHERS[0], answer=19, fields=GSM8K),
        problem("half", OTHERS[1], answer=r"\frac12", evaluator="expression", fields=MATH),
        problem("near", LEAKS[2], fields=GSM8K),
        problem("bare", "What is 1?"),
    ]
    found = demonstrations_of(tmp_path, params(file=None), environment, splits(train))
    assert [example.completion for example in found.examples] == texts
    assert all(hard_format(text) for text in texts)
    assert found.repeats == ["near"]
    assert ("worked solutions of 2 train problems are texts, which" in caplog.text) == (not texts)
    assert "1 train problems nearly repeat one that is tested on" in caplog.text


def test_without_a_warm_start_nothing_is_read_and_a_file_for_nothing_is_an_error(tmp_path: Path) -> None:
    train = [problem("hens", OTHERS[0], fields=GSM8K)]
    for setting in (params("auto", None), params(0, None), params("auto", None, "scratch"), params(3, None, "scratch")):
        assert demonstrations_of(tmp_path, setting, TaggedAnswer(), splits(train)) == Demonstrations()
    with pytest.raises(GraftError, match=r"^bootstrap\.demonstrations: mine\.jsonl, but bootstrap\.epochs is auto, wh"):
        demonstrations_of(tmp_path, params("auto"), TaggedAnswer(), splits(train))
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "lineage.json").write_text("{}")
    earlier = params("auto", base="earlier")
    assert demonstrations_of(tmp_path, earlier, TaggedAnswer(), splits(train)) == Demonstrations()
    (told,) = contradictions(params(0, None, "scratch"))
    assert told[0] == "bootstrap"
    assert told[1].startswith("epochs is 0, but a model from scratch has learnt nothing before: set epochs to auto")


@pytest.mark.parametrize("columns", [GSM8K, {"solution": "12 + 7"} | {"answer": 19}], ids=["GSM8K", "own"])
def test_the_stage_keeps_solutions_of_lines_and_what_is_demonstrated_counts_as_learnt(
    columns: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    nouns = ["pears", "hens", "books", "cars", "coins", "trees", "boats", "rolls", "stars", "keys"]
    lines = [{"question": f"{noun.capitalize()} of {n}?", **columns} for n, noun in enumerate(nouns)]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    write(tmp_path, OTHERS)
    sizes = {"source": "jsonl", "path": "lines.jsonl", "train": 4, "validation": 2, "test": 3, "confirm": 1}
    layout = Layout(tmp_path)
    for file, count in ((None, 4), ("mine.jsonl", 2)):
        wanted = stage_params(
            "problems",
            environment="answer",
            problems=sizes,
            policy={"base": "some/model"},
            bootstrap={"epochs": 1, "demonstrations": file},
        )
        run(layout, wanted, None)
        assert all(problem.worked_solution for problem in read_jsonl(layout.problems("train"), Problem))
        found = read_json(layout.demonstrations, Demonstrations)
        assert len(found.examples) == count
        assert not found.repeats
        known = read_json(layout.carried(KNOWN), KnownProblems)
        assert {question_key(example.question) for example in found.examples} <= set(known.learnt)
        assert not set(known.learnt).intersection(known.tested)
