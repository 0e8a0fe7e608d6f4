"""Near-duplicates, compared with all pairs."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tasks.problems.near_duplicates import near_duplicates
from tasks.records.problems import Problem, Sibling

texts = st.lists(st.text("ab c", min_size=1, max_size=14), max_size=8)


def problems_of(name: str, questions: list[str]) -> list[Problem]:
    return [Problem(problem_id=f"{name}{i}", question=q, answer=1, source="a") for i, q in enumerate(questions)]


def runs(question: str) -> set[str]:
    words = re.findall(r"\w+", question)
    return {" ".join(words[i : i + 3]) for i in range(max(len(words) - 2, 1))}


def alike(one: str, other: str) -> bool:
    return len(runs(one) & runs(other)) / len(runs(one) | runs(other)) >= 0.5


@given(texts, texts)
def test_they_are_those_of_all_pairs(test: list[str], learnt: list[str]) -> None:
    pairs = {
        f"t{i}": next(f"l{j}" for j, other in enumerate(learnt) if alike(one, other))
        for i, one in enumerate(test)
        if any(alike(one, other) for other in learnt)
    }
    assert near_duplicates(problems_of("t", test), problems_of("l", learnt)) == pairs


def test_siblings_count_and_contexts_do_not() -> None:
    context = "Paris is in France, as everybody knows by now.\n\nQuestion: "
    test = problems_of("t", [context + "Where is it, and since when?"])
    learnt = problems_of("l", [context + "Is Rome the capital of Italy?"])
    assert near_duplicates(test, learnt) == {}
    sibling = Sibling(question="Where is it, and since what year?", answer=1)
    assert near_duplicates(test, [learnt[0].model_copy(update={"siblings": [sibling]})]) == {"t0": "l0"}
