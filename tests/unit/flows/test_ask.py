"""`graft ask`: a policy answers as it does in an evaluation, whichever way it is asked."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.ask import as_record, as_text, ask
from flows.cli.app import app
from tasks.artifacts import digest_path, write_jsonl
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import load_policy, save_policy
from tasks.model.rollouts.attempts import evaluate_policy
from tasks.params.params import Params
from tasks.promote.champion import promote_policy
from tasks.records.problems import Problem
from tests.support.champions import NOW, better_policy
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY, shipped_params

PRODUCT = "def solve(problem):\n    n = numbers(problem)\n    return n[0] * n[1]\n"
TAGGED = "<think>\n3 * 4 = 12\n</think>\n<answer>\n12\n</answer>"
BOXES, SUM = "3 boxes of 4 pens?", "Ann has 12 and gives 5 away."


def params(**changes: Any) -> Params:
    hot = {"temperature": 2.0}  # hot enough that tries differ
    return shipped_params(policy={"max_new_tokens": 96}, evaluation=hot, **changes)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, make_solver: Callable[[Path, str], str]) -> Path:
    """A project whose champion is round 1's policy, which multiplies; round 0's writes an answer in tags."""
    layout = Layout(tmp_path_factory.mktemp("project"))
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(REPOSITORY / name, layout.root)
    override(layout.root / "params.yaml", ["policy.max_new_tokens=96", "evaluation.temperature=2.0"])
    first = make_solver(layout.policy(0), TAGGED)
    make_solver(layout.root / "solver", PRODUCT)
    for folder in (layout.policy(1), layout.run_policy):
        save_policy(load_policy(layout.root / "solver"), folder, first, 1)
    promote_policy(layout.champion, better_policy(layout.root, "round 1"), NOW)
    return layout.root


@pytest.mark.parametrize(
    ("environment", "folder", "code", "value"),
    [("workflow", "champion/policy", PRODUCT, 12), ("answer", "run/rounds/0/policy", TAGGED, 12)],
)
def test_the_answer_is_that_of_an_evaluation(environment: str, folder: str, code: str, value: int, root: Path) -> None:
    layout, own = Layout(root), params(environment=environment)
    problem = Problem(problem_id="p", question=BOXES, answer=12, source="test")
    ((attempt,),) = evaluate_policy(layout, own, root / folder, [problem], "evaluate@after").attempts
    ((question, (reply,)),) = ask(layout, own, [BOXES], str(root / folder), 0, False)
    (answer,) = reply.answers
    assert (question, answer.code, answer.result) == (BOXES, attempt.code, attempt.result)
    assert (answer.code, answer.result.value) == (code, value)


def test_tries_are_functions_of_the_question_and_their_place(root: Path) -> None:
    layout = Layout(root)
    (_, (two,)), (_, (other,)) = ask(layout, params(), [BOXES, SUM], None, 4, False)
    ((_, (more,)),) = ask(layout, params(), [BOXES], None, 6, False)
    assert more.answers[:5] == two.answers
    assert len({code for code, _ in more.answers}) > 2
    assert other.answers[1:] != two.answers[1:]


def test_the_first_policy_of_the_run_answers_beside_it(root: Path) -> None:
    ((question, replies),) = ask(Layout(root), params(), [BOXES], None, 0, True)
    code = replies[1].answers[0].code  # what looks like code in a text with tags
    told = as_text(replies)
    ours, its = (f"# {name} {reply.version}\n" for name, reply in zip(("policy", "first policy"), replies, strict=True))
    assert told.startswith(f"{ours}{PRODUCT}# → 12\n\n{its}{code}# error: ")
    assert as_record(question, replies)["first"]["status"] == "error"


def test_each_line_of_a_pipe_is_a_question(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    asked = partial(CliRunner().invoke, app, input=f"{BOXES}\n{SUM}\r\n")
    before = digest_path(root)
    lines = [json.loads(line) for line in asked(["ask", "--json", "--samples", "3"]).stdout.splitlines()]
    assert [(line["question"], line["value"], line["status"]) for line in lines] == [(BOXES, 12, "ok"), (SUM, 60, "ok")]
    for line in lines:
        values = [each["value"] for each in line["tries"] if each["status"] == "ok"]
        assert line["most"]["count"] == max(map(values.count, values), default=0)
    assert asked(["ask"]).stdout == f"# {BOXES}\n{PRODUCT}# → 12\n\n# {SUM}\n{PRODUCT}# → 60\n\n"
    assert asked(["ask", SUM]).stdout == f"{PRODUCT}# → 60\n"
    tried = asked(["ask", "--samples", "2", SUM]).stdout
    assert tried.startswith(f"{PRODUCT}# → 60\n\n# try 1\n")
    assert re.fullmatch(r"# most: .+, [0-2] of 2 tries", tried.splitlines()[-1])
    assert digest_path(root) == before


def test_the_prompt_names_the_kind_of_answer_of_the_train_problems(root: Path) -> None:
    layout, own = Layout(root), params(environment="answer")
    problem = Problem(problem_id="p", question="?", answer="B", evaluator="choice", source="test")
    write_jsonl(layout.problems("train"), [problem])
    try:
        ((_, (reply,)),) = ask(layout, own, [BOXES], str(layout.policy(0)), 0, False)
    finally:
        layout.problems("train").unlink()
    assert reply.answers[0].result.value == "12"  # the block itself, not a number


@pytest.mark.parametrize(
    ("questions", "name", "compare", "line"),
    [
        ([BOXES, " "], None, False, r"^question 2: is empty; write one a line$"),
        (["pens " * 3000], None, False, r"^question: pens .* tokens, and the policy has room for \d+ before .*; ask a"),
        ([BOXES], "run/none", False, r"^run/none: no such policy folder, and no version of a policy here; name run/"),
        ([BOXES], "abc", False, r"^'abc': too short for a version"),
        ([BOXES], "solver", True, r"^--compare: .*solver is of a run that is no longer in run/; ask"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    questions: list[str], name: str | None, compare: bool, line: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    if compare:
        save_policy(load_policy(root / "solver"), root / "solver", "gone", 2)
    with pytest.raises(GraftError, match=line) as error:
        list(ask(Layout(root), params(), questions, name, 0, compare))
    assert "\n" not in str(error.value)


def test_without_a_champion_or_in_another_environment_nobody_answers(root: Path, tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="there is no champion yet; graft retrain promotes"):
        list(ask(Layout(tmp_path), params(), [BOXES], None, 0, False))
    with pytest.raises(GraftError, match="was trained in environment workflow, this run's is answer"):
        list(ask(Layout(root), params(environment="answer"), [BOXES], None, 0, False))


def test_a_version_names_a_policy(root: Path) -> None:
    version = load_policy(root / "run" / "rounds" / "0" / "policy").version
    ((_, (reply,)),) = ask(Layout(root), params(), [BOXES], version[:4], 0, False)
    assert reply.version == version
