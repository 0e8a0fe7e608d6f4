"""Annotated solutions are read as programs; a program is judged by every reading of them."""

import pytest

from benchmarks.statement_search.annotated import is_annotated, likely_program, parse_solution
from benchmarks.statement_search.evaluator import behaviour
from tasks.coldstart.expression_space import Program, Space, space_of

pytestmark = pytest.mark.nightly


def space(question: str, answer: float) -> Space:
    return space_of("p", [question], [answer])


NATALIA = "Natalia sold clips to 48 friends in April, and then half as many in May. How many altogether?"
SOLVED = "She sold 48/2 = <<48/2=24>>24 in May.\nTogether <<48+24=72>>72.\n#### 72"
N, HALF = 6, 7  # operands: the first two leaves


def test_half_is_read_as_the_quantity_that_the_question_names() -> None:
    problem, solution = space(NATALIA, 72), parse_solution(SOLVED, 72)
    assert solution is not None
    assert likely_program(solution, problem) == (("/", N, 9), ("+", N, 0))
    by_two: Program = (("/", N, 9), ("+", N, 0))
    by_half: Program = (("*", N, HALF), ("+", 0, N))
    wrong: Program = (("+", N, 10),)
    assert problem.texts[:2] == ["n[0]", "n[1]"]
    assert problem.texts[3] == "2"
    assert is_annotated(behaviour(by_two, problem), solution, problem)
    assert is_annotated(behaviour(by_half, problem), solution, problem)
    assert not is_annotated(behaviour(wrong, problem), solution, problem)


def test_any_reading_of_an_ambiguous_number_counts_but_a_matching_answer_does_not() -> None:
    problem = space("Ann has 5 boxes of 5 pens and 5 pencils. How many pens and pencils?", 30)
    solution = parse_solution("<<5*5=25>>25 <<25+5=30>>30 #### 30", 30)
    assert solution is not None
    for program in [(("*", 6, 7), ("+", 0, 8)), (("*", 7, 8), ("+", 0, 6))]:
        assert is_annotated(behaviour(program, problem), solution, problem)
    assert likely_program(solution, problem) == (("*", 6, 7), ("+", 0, 8))
    coincidence: Program = (("+", 6, 7), ("*", 0, 10), ("+", 1, 1))
    assert not is_annotated(behaviour(coincidence, problem), solution, problem)


def test_percentages_and_hundredths() -> None:
    problem = space("A coat of $80 is 25% off. How much is taken off?", 20)
    for text in ("<<25/100*80=20>>", "<<25*.01*80=20>>", "<<80*0.25=20>>", "<<80*25%=20>>"):
        solution = parse_solution(text, 20)
        assert solution is not None
        assert is_annotated(behaviour((("*", 6, 7),), problem), solution, problem), text


@pytest.mark.parametrize("text", ["", "#### 5", "<<5+x5=5>>", "<<__import__('os')=5>>", "<<2**3=5>>", "<<4+2=6>>"])
def test_what_is_no_solution(text: str) -> None:
    assert parse_solution(text, 5) is None


def test_a_number_from_nowhere_makes_no_program_to_learn_from() -> None:
    solution = parse_solution("<<48*17=816>>", 816)
    assert solution is not None
    assert likely_program(solution, space(NATALIA, 816)) is None
