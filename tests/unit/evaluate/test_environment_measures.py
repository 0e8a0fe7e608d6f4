"""Means of an environment's measures, its pictures, and what it measures in play."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import read_jsonl, write_jsonl
from tasks.core.metrics_files import read_metrics
from tasks.environments.direct import Direct
from tasks.environments.measures import gate_value
from tasks.environments.protocol import Gate
from tasks.errors import GraftError
from tasks.evaluate.environment_measures import ENDS, measure_means, named, with_pictures
from tasks.evaluate.task import run
from tasks.layout import Layout
from tasks.records.evaluation import Attempt
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.statistics.intervals import wilson_interval
from tests.support.stage_params import shipped_params, stage_params

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


EVALUATION = shipped_params(evaluation={"ks": [1, 2]}).evaluation


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


def levels(environment: Direct, problems: Sequence[Problem]) -> dict[str, float]:
    """The measures without the ends of their intervals."""
    found = measure_means(environment, problems, ATTEMPTS, EVALUATION, 0)
    return {name: value for name, value in found.items() if not name.endswith(ENDS)}


def test_a_mean_is_over_the_problems_that_have_the_measure_and_samples_weigh_within_theirs() -> None:
    assert levels(Letters(), PROBLEMS) == {
        "measure/length/greedy": 2.5, "measure/length/greedy_seen": 1.0, "measure/length/greedy_unseen": 4.0,
        "measure/length/sampled": 0.75, "measure/length/sampled_seen": 1.5, "measure/length/sampled_unseen": 0.0,
        "measure/is_a/greedy": 1.0, "measure/is_a/greedy_seen": 1.0,
        "measure/is_a/sampled": 0.75, "measure/is_a/sampled_seen": 0.75,
    }  # fmt: skip
    known = [problem("p", "a"), problem("q", "b", seen=None)]
    assert set(levels(Letters(), known)) == {
        f"measure/{name}/{kind}" for name in ("length", "is_a") for kind in ("greedy", "sampled")
    }
    assert named({"half_moves": 3.0}) == {"measure/half_moves/greedy": 3.0}


class Shares(Letters):
    """A share of each text, and two numbers on all of them."""

    def measures(self, problem: Problem, text: str) -> dict[str, float]:  # noqa: ARG002
        return {"share": min(len(text), 4) / 4, "length": float(len(text))}

    def measures_of_all(
        self, problems: Sequence[Problem], texts: Sequence[Sequence[str]], ks: Sequence[int]
    ) -> Mapping[str, float | list[float]]:
        assert len(problems) == len(texts)
        together = [text for own in texts for text in own]
        return {"texts": float(len(together)), "longest": [max(map(len, own)) / (4 * max(ks)) for own in texts]}


def test_measures_of_all_see_each_sample_as_often_as_it_was_drawn_and_a_list_is_one_value_a_problem() -> None:
    found = levels(Shares(), PROBLEMS)
    assert found["measure/texts/greedy"] == 2
    assert found["measure/texts/sampled"] == 8
    assert found["measure/longest/greedy"] == (1 / 8 + 4 / 8) / 2
    assert found["measure/longest/sampled"] == (3 / 8 + 0) / 2


def test_values_between_0_and_1_have_the_interval_of_pass_at_k_over_the_problems_and_others_none() -> None:
    found = measure_means(Shares(), PROBLEMS, ATTEMPTS, EVALUATION, 0)
    expected = wilson_interval([1 / 4, 1.0])
    ends = tuple(found[f"measure/share/greedy{end}"] for end in ("", *ENDS))
    assert ends == pytest.approx(tuple(expected))
    assert "measure/longest/sampled_low" in found
    assert not {f"measure/{name}/{kind}_low" for name in ("length", "texts") for kind in ("greedy", "sampled")} & {
        *found
    }


@pytest.mark.parametrize(("given", "why"), [
    ({"x": [1.0, 2.0, 3.0]}, "3 values of x for 2 problems; give a number, or one for each problem"),
    ({"x": float("inf")}, "x is inf; give a finite number"),
    ({"": 1.0}, "'' is no name of a measure; write 100 letters"),
    ({"x" * 101: 1.0}, "'x+ is no name of a measure"),
    ({"../x": 1.0}, r"'\.\./x' is no name of a measure"),
    ({"a,b": 1.0}, "'a,b' is no name of a measure"),
    (3, "raised AttributeError: .*; fix it"),
])  # fmt: skip
def test_wrong_measures_of_all_stop_the_evaluation(monkeypatch: pytest.MonkeyPatch, given: Any, why: str) -> None:
    monkeypatch.setattr(Shares, "measures_of_all", lambda *_: given)
    with pytest.raises(GraftError, match=rf"^environment: Shares\.measures_of_all.*{why}"):
        levels(Shares(), PROBLEMS)


def test_the_gate_compares_the_mean_over_a_problems_samples() -> None:
    environment = Shares()
    assert gate_value(environment, PROBLEMS[0], ATTEMPTS[0]) is None
    environment.gate = Gate("share", lower=True, kept={})
    assert gate_value(environment, PROBLEMS[0], ATTEMPTS[0]) == (3 * 1 / 4 + 3 / 4) / 4
    environment.gate = Gate("length", lower=True, kept={})
    with pytest.raises(GraftError, match=r"length is .*, and promotion compares it; give a number in"):
        gate_value(environment, PROBLEMS[0], ATTEMPTS[0])


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
        levels(Broken(numbers), PROBLEMS)


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
    own: dict[str, Any] = {"environment": "echo:Echo"}
    changes = {"evaluation": {"samples": 2, "ks": [1]}, "policy": {"max_new_tokens": 16}}
    run(layout, stage_params("evaluate", **own, **changes), 0)
    numbers = read_metrics(layout, "evaluate@before")
    attempts = read_jsonl(layout.evaluation("before") / "attempts.jsonl", Attempt)
    greedy = [each for each in attempts if each.greedy]
    assert [each.picture for each in greedy] == [f"<svg>{len(each.code)}</svg>" for each in greedy]
    assert numbers["measure/letters/greedy"] == sum(len(each.code) for each in greedy) / 2
    assert numbers["measure/same/greedy"] == float(greedy[0].code == "abc")
    assert 0 <= numbers["measure/second_is_first/greedy"] <= 1
