"""`graft problems` and `graft environments`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.reports.environment_list import list_environments
from flows.reports.problem_file import describe_files
from tasks.environments.direct import Direct
from tasks.errors import GraftError
from tests.support.broken_models import save_model
from tests.support.params_file import override
from tests.support.stage_params import REPOSITORY, shipped_params

SHARED = REPOSITORY.parent / "shared/data"
CAPITALS = [
    {"question": "Capital of France?", "answer": ["Paris", "Paris, France"], "context": "Europe.", "hops": 1},
    {"question": "Capital of Italy?", "answer": "Rome"},
    {"question": "Capital of Italy?", "answer": "Roma", "problem_id": "again"},
    {"question": "Capital of Spain?"},
]


@pytest.fixture(autouse=True)
def in_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def text_of(rows: list[dict[str, object]]) -> str:
    return "\n".join(map(json.dumps, rows))


def described(rows: list[dict[str, object]], siblings: int) -> list[str]:
    """A file of these rows, in the working directory."""
    Path("capitals.jsonl").write_text(text_of(rows))
    return describe_files("capitals.jsonl", "text", siblings).splitlines()


def test_a_file_is_described_with_its_refused_and_repeated_lines() -> None:
    lines = described(CAPITALS, 0)
    assert lines[:11] == [
        "capitals.jsonl: 3 problems, format question and answer",
        "  evaluator   text: the answer is a short text",
        "  answers     2 texts, 1 with several accepted answers",
        "  questions   17 to 18 characters, median 17 (3)",
        "  contexts    7 to 7 characters, median 7 (1)",
        "  siblings    none: the file has none, no paraphrases and no paragraphs to reorder",
        "  fields      hops (no question shows them)",
        "  duplicates  1 (a run refuses them)",
        "  refused     1 of 4 lines, so that a run refuses the file: line 4; the first:",
        "              capitals.jsonl:4: answer: missing; every line needs a question and an answer",
        "  q-" + lines[10][4:],
    ]
    assert lines[12] == "      answer: Paris | Paris, France"
    assert len(lines) == 10 + 3 * 3


def test_a_file_of_which_no_line_is_usable_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text(text_of([{"question": f"{n}?", "answer": "x"} for n in range(3)]))
    with pytest.raises(GraftError, match=r"some.jsonl:1: answer: 'x' is no number; .* \(the first of 3 lines"):
        describe_files(str(tmp_path / "some.jsonl"), "format", 0)


def test_an_environment_reads_its_own_formats_and_tries_the_problems_out() -> None:
    row: dict[str, object] = {"question": "double(x)", "entry_point": "double", "tests": ["assert double(2) == 4"]}
    Path("code.jsonl").write_text(text_of([row | {"shown": row["tests"]}]))
    assert "\n  doubtful    code.jsonl:1: tests: all of them are shown, so that " in describe_files(
        "code.jsonl", "format", 0, "recipes.code:Code"
    )
    with pytest.raises(GraftError, match=r"answer: missing; the line has .* or name an environment that reads such"):
        describe_files("code.jsonl", "format", 0)
    Path("code.jsonl").write_text(text_of([row | {"tests": ["print(double(2) == 3)"]}]))
    with pytest.raises(GraftError, match=r"code.jsonl:1: tests: none in them would run"):
        describe_files("code.jsonl", "format", 0, "recipes.code:Code")
    with pytest.raises(GraftError, match=r"did you mean 'recipes\.code:Code'\?") as error:
        describe_files("code.jsonl", "format", 0, "code")
    assert "\n" not in str(error.value)


def test_answers_that_the_evaluator_of_expressions_cannot_read_are_counted_with_their_lines() -> None:
    answers = [r"\frac{1}{2}", r"\text{no solution}", 12, "x^2 + 1", "Evelyn"]
    rows: list[dict[str, object]] = [{"question": f"{n}?", "answer": answer} for n, answer in enumerate(answers)]
    Path("math.jsonl").write_text(text_of(rows))
    told = "5 texts; 2 of them no expression, equal to the same letters alone: line 2, line 5\n"
    assert f"  answers     {told}" in describe_files("math.jsonl", "expression", 0)
    Path("math.jsonl").write_text(text_of(rows[:1]))
    assert "  answers     1 texts\n" in describe_files("math.jsonl", "expression", 0)


@pytest.mark.slow
def test_a_question_for_which_the_base_of_the_project_has_no_room_is_named(tmp_path: Path) -> None:
    """Without a base torch is not imported, which would take seconds."""
    Path("long.jsonl").write_text(text_of([{"question": "1?", "answer": 1}, {"question": "2? " * 400, "answer": 2}]))
    Path("params.yaml").write_text((REPOSITORY / "params.yaml").read_text())
    code = "import sys; from flows.reports.problem_file import describe_files as d; print(d('long.jsonl', 'format', 0))"
    asked = [sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"]
    path = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    without = subprocess.run(asked, env=path, capture_output=True, text=True, check=True).stdout.rstrip("\n")
    save_model(tmp_path / "model")
    for base, told in (
        ("model", r"\n\nlong\.jsonl:2: a question of \d+ tokens, but model holds 256, 64 of them for a completion .*"),
        ("not/here", ""),
    ):
        override(tmp_path / "params.yaml", [f"policy.base={base}"])
        assert re.fullmatch(re.escape(without) + told, describe_files("long.jsonl", "format", 0))


@pytest.mark.skipif(not SHARED.exists(), reason="GSM8K and HumanEval are not here")
def test_real_files_are_recognised() -> None:
    gsm8k = describe_files(str(SHARED / "gsm8k/train.jsonl"), "format", 0).splitlines()
    assert gsm8k[0].endswith("train.jsonl: 7473 problems, format GSM8K")
    assert gsm8k[1:3] == ["  evaluator   number: the answer is a number", "  answers     7473 integers"]
    code = describe_files(str(SHARED / "humaneval/HumanEval.jsonl"), "format", 0, "recipes.code:Code").splitlines()
    assert code[0].endswith("HumanEval.jsonl: 164 problems, format HumanEval")
    assert code[1] == "  evaluator   unit_tests: the answer is the code of a Python function"


def test_siblings_are_counted_as_a_run_makes_them_and_the_same_question_twice_is_repeated() -> None:
    rows: list[dict[str, object]] = [
        {"question": "Of France?", "answer": "Paris", "paraphrases": ["French capital?", "Where is its seat?"]},
        {"question": "Of Italy?", "answer": "Rome", "siblings": [{"question": "Of Spain?", "answer": "Madrid"}]},
        {"question": "French capital?", "answer": "Paris"},
    ]
    for count, made in ((2, 2), (1, 1), (0, 0)):
        lines = described(rows, count)
        problems, alike = (2, 1) if count else (1, 0)
        assert lines[5] == f"  siblings    {made + 1}, of {problems} problems; the same answer in {alike} of them"
        assert count == 1 or lines[7].startswith("  duplicates  none") == (count == 0)


def test_choices_are_counted_by_letter(tmp_path: Path) -> None:
    rows = [{"question": f"{n}?", "choices": ["a", "b"], "answer": n % 2} for n in range(5)]
    (tmp_path / "mmlu.jsonl").write_text(text_of(rows))
    assert "  answers     3 A, 2 B\n" in describe_files(str(tmp_path), "format", 0)


@pytest.mark.parametrize(("name", "evaluator", "message"), [
    ("none.jsonl", "format", "none.jsonl: no such file; name a jsonl file"),
    ("empty.jsonl", "format", "empty.jsonl: no line; write one JSON object per line"),
    ("empty.jsonl", "fuzzy", "--evaluator: no 'fuzzy'; name one of format, number, text"),
])  # fmt: skip
def test_what_cannot_be_described_is_refused_in_one_line(name: str, evaluator: str, message: str) -> None:
    Path("empty.jsonl").write_text("\n \n")
    with pytest.raises(GraftError) as error:
        describe_files(name, evaluator, 0)
    assert str(error.value).startswith(message)


class Yes(Direct):
    """Answers are yes."""

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        return f"{question} Yes?\n"

    def parse(self, text: str) -> str | None:
        return text


def test_environments_are_listed_with_prompt_terms_and_evaluators(monkeypatch: pytest.MonkeyPatch) -> None:
    text = list_environments(REPOSITORY, shipped_params())
    assert "workflow  (in use)\n  Workflows: Python that defines" in text
    assert "  reward terms  hard_format, mark, steps\n" in text
    assert "      Solve the problem. Think first" in text
    assert "Evaluators of answers (problems.evaluator is format):\n  number " in text
    alone = list_environments(REPOSITORY, shipped_params(), "answer")
    assert alone in text
    assert "param         malformed_share: 0.3  # " in alone
    assert "workflow" not in alone
    monkeypatch.setattr("flows.reports.environment_list.environment_in", lambda *_: Yes())
    own = list_environments(REPOSITORY, shipped_params(environment="mine:Yes"))
    assert "mine:Yes  (in use)\n  Answers are yes.\n  answers       read from the completion" in own
    assert "workflow\n  Workflows" in own
