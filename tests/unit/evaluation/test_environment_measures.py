"""Means of an environment's measures, its pictures, and what it measures in play."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import read_jsonl, write_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.environments.direct import Direct
from tasks.environments.protocol import Complete
from tasks.errors import GraftError
from tasks.evaluation.environment_measures import measure_means, named, with_pictures
from tasks.evaluation.evaluate_task import run
from tasks.layout import Layout
from tasks.records import Attempt, Problem, Result
from tasks.sources.user_modules import digest_modules
from tests.support.stage_params import stage_params

OWN = """
from tasks.environments.direct import Direct

class Echo(Direct):
    def prompt(self, question, base, served=False):
        return f"{question}\\n"

    def parse(self, text):
        return text

    def measures(self, problem, text):
        return {"letters": float(len(text)), **({"same": float(text == problem.answer)} if problem.answer else {})}

    def play(self, problems, complete):
        first = complete([problem.question for problem in problems])
        return {"second_is_first": sum(a == b for a, b in zip(first, complete(first))) / len(first)}

    def picture(self, problem, text):
        return f"<svg>{len(text)}</svg>"
"""


class Letters(Direct):
    """The length of a text; and whether it is an `a`, for problems that want one."""

    def prompt(self, question: str, base: str, served: bool = False) -> str:  # noqa: ARG002
        return question

    def parse(self, text: str) -> str | None:
        return text

    def measures(self, problem: Problem, text: str) -> dict[str, float]:
        return {"length": float(len(text)), **({"is_a": float(text == "a")} if problem.answer == "a" else {})}

    def picture(self, problem: Problem, text: str) -> str | None:
        return f"<svg>{problem.problem_id} {text}</svg>" if problem.answer == "a" else None


def problem(name: str, answer: str, seen: bool | None = True) -> Problem:
    return Problem(problem_id=name, evaluator="text", question=f"{name}?", answer=answer, source="test", seen=seen)


def attempt(name: str, code: str, greedy: bool = False, samples: int = 0) -> Attempt:
    result = Result(status="ok", value=code)
    own = {"problem_id": name, "code": code, "greedy": greedy, "samples": samples}
    return Attempt(**own, right=False, siblings_passed=None, result=result)  # type: ignore[arg-type]


PROBLEMS = [problem("p", "a"), problem("q", "b", seen=False)]
ATTEMPTS = [
    [attempt("p", "a", greedy=True, samples=3), attempt("p", "aaa", samples=1)],
    [attempt("q", "aaaa", greedy=True), attempt("q", "", samples=4)],
]


def test_a_mean_is_over_the_problems_that_have_the_measure_and_samples_weigh_within_theirs() -> None:
    assert measure_means(Letters(), PROBLEMS, ATTEMPTS) == {
        "measure/length/greedy": 2.5, "measure/length/greedy_seen": 1.0, "measure/length/greedy_unseen": 4.0,
        "measure/length/sampled": 0.75, "measure/length/sampled_seen": 1.5, "measure/length/sampled_unseen": 0.0,
        "measure/is_a/greedy": 1.0, "measure/is_a/greedy_seen": 1.0,
        "measure/is_a/sampled": 0.75, "measure/is_a/sampled_seen": 0.75,
    }  # fmt: skip
    known = [problem("p", "a"), problem("q", "b", seen=None)]
    assert set(measure_means(Letters(), known, ATTEMPTS)) == {
        f"measure/{name}/{kind}" for name in ("length", "is_a") for kind in ("greedy", "sampled")
    }
    assert named({"half_moves": 3.0}) == {"measure/half_moves/greedy": 3.0}


def test_greedy_attempts_have_the_picture_that_the_environment_draws() -> None:
    drawn = with_pictures(Letters(), PROBLEMS, ATTEMPTS)
    assert [[each.picture for each in own] for own in drawn] == [["<svg>p a</svg>", None], [None, None]]
    assert [[each.code for each in own] for own in drawn] == [["a", "aaa"], ["aaaa", ""]]
    assert "picture" not in drawn[1][0].model_dump()


class Broken(Letters):
    """Measures that are none."""

    def __init__(self, numbers: Callable[[], dict[str, float]]) -> None:
        self._numbers = numbers

    def measures(self, problem: Problem, text: str) -> dict[str, float]:  # noqa: ARG002
        return self._numbers()


@pytest.mark.parametrize(("numbers", "why"), [
    (lambda: {"x": float("nan")}, "of p: x is nan; give a finite number"),
    (lambda: {"x": 1 / 0}, "of p raised ZeroDivisionError: .*; fix it"),
])  # fmt: skip
def test_a_measure_that_is_no_number_stops_the_evaluation(numbers: Callable[[], dict[str, float]], why: str) -> None:
    with pytest.raises(GraftError, match=rf"^environment: Broken\.measures {why}"):
        measure_means(Broken(numbers), PROBLEMS, ATTEMPTS)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "echo.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("echo", None)


def test_the_stage_writes_them(root: Path, make_solver: Callable[[Path, str], str]) -> None:
    layout = Layout(root)
    make_solver(layout.policy(0), "abc")
    write_jsonl(layout.problems("test"), [problem("p", "abc"), problem("q", "")])
    own: dict[str, Any] = {"environment": "echo:Echo", "environment_sha256": digest_modules(root, ["echo"])}
    changes = {"evaluation": {"samples": 2, "ks": [1]}, "policy": {"max_new_tokens": 16}}
    run(layout, stage_params("evaluate", **own, **changes), 0)
    numbers = read_metrics(layout, "evaluate@before")
    attempts = read_jsonl(layout.evaluation("before") / "attempts.jsonl", Attempt)
    greedy = [each for each in attempts if each.greedy]
    assert [each.picture for each in greedy] == [f"<svg>{len(each.code)}</svg>" for each in greedy]
    assert numbers["measure/letters/greedy"] == sum(len(each.code) for each in greedy) / 2
    assert numbers["measure/same/greedy"] == float(greedy[0].code == "abc")
    assert 0 <= numbers["measure/second_is_first/greedy"] <= 1


def test_play_asks_the_policy_again_with_what_it_answered() -> None:
    asked: list[Sequence[str]] = []

    def complete(questions: Sequence[str]) -> list[str]:
        asked.append(questions)
        return [f"{question}!" for question in questions]

    namespace: dict[str, Any] = {}
    exec(OWN, namespace)
    used: Complete = complete
    assert namespace["Echo"]().play(PROBLEMS, used) == {"second_is_first": 0.0}
    assert asked == [["p?", "q?"], ["p?!", "q?!"]]
