"""What the samples of an evaluation cost."""

from typing import Any

import pytest

from tasks.evaluate.evaluation import efficiency_means
from tasks.programs.contract import HEADER
from tasks.records.evaluation import Attempt
from tasks.records.programs import Result
from tests.support.stage_params import shipped_params


def attempt(body: str, samples: int, **usage: int) -> Attempt:
    result = Result(status="ok", value=1, **usage)
    fields: dict[str, Any] = {"problem_id": "p", "greedy": False, "right": True, "siblings_passed": None}
    return Attempt(code=f"{HEADER}    {body}\n", samples=samples, result=result, **fields)


def test_means_are_over_samples_and_only_what_is_known_is_there() -> None:
    attempts = [
        [attempt("return n[0] + n[1] * 2", 3), attempt("return answer(problem)", 1, calls=2, completion_tokens=1000)],
        [attempt("return (", 2), attempt("return n[0]", 0)],  # no Python; greedy alone
    ]
    operators = shipped_params().operators
    assert efficiency_means(attempts, operators) == {"operations_per_sample": pytest.approx((3 * 2 + 1) / 4)}
    served = operators.model_copy(update={"backend": "policy"})
    assert efficiency_means(attempts, served)["model_calls_per_sample"] == pytest.approx(2 / 6)
    priced = served.model_copy(update={"price": (1.0, 3.0)})
    cost = efficiency_means(attempts, priced)["cost_per_1000_samples"]
    assert cost == pytest.approx(1000 * 1000 * 3 / 1e6 / 6)
    assert efficiency_means([[]], served) == {}
