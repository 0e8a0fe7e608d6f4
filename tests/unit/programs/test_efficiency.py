"""Laws of what a workflow costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.programs.contract import HEADER
from tasks.programs.efficiency import Budget, count_operations, mean_calls, mean_cost
from tasks.records.programs import Result


@given(st.lists(st.sampled_from("+-*/"), max_size=8))
def test_operations_of_plain_arithmetic_are_its_statements(signs: list[str]) -> None:
    lines = [f"    v{i} = n[{i}] {sign} n[{i + 1}]\n" for i, sign in enumerate(signs)]
    assert count_operations(f"{HEADER}{''.join(lines)}    return n[0]\n") == len(signs)
    assert count_operations(f"{HEADER}    return {''.join(f'n[{i}] {s} ' for i, s in enumerate(signs))}n[0]\n") == len(
        signs
    )


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return calculate('2 + 3')", 1),
        ("return majority([answer(problem), answer(problem)])", 3),
        ("return n[0] if 1 < n[1] <= 3 else 0", 2),
        ("total = 0\n    for each in n:\n        total += each\n    return total", 1),  # a loop counts once
        ("return -n[0]", 0),
        ("return problem.strip()", 1),
        ("return [numbers(problem)]", 0),
    ],
)
def test_what_counts_as_an_operation(body: str, count: int) -> None:
    assert count_operations(f"{HEADER}    {body}\n") == count


@pytest.mark.parametrize("code", ["def solve(", "a = \0", "(" * 5000])
def test_what_is_no_python_has_no_operations(code: str) -> None:
    assert count_operations(code) is None


def test_calls_and_dollars_are_means_over_the_questions() -> None:
    results = [
        Result(status="ok", value=1, calls=3, prompt_tokens=1000, completion_tokens=500),
        Result(status="ok", value=1),
    ]
    assert mean_calls(results) == 1.5
    assert mean_cost(results, (2.0, 4.0)) == pytest.approx((1000 * 2 + 500 * 4) / 1e6 / 2)
    assert Budget(8, 256, None).cost is None
    assert Budget(8, 250, (1.0, 4.0)).cost == pytest.approx(8 * 250 * 4 / 1e6)


def test_a_result_without_calls_is_stored_as_before() -> None:
    assert Result(status="ok", value=1).model_dump_json() == '{"status":"ok","value":1,"error":null}'
    asked = Result(status="ok", value=1, calls=2, prompt_tokens=9, completion_tokens=4)
    assert Result.model_validate_json(asked.model_dump_json()) == asked
