"""Laws of the search over statements: seeds, batches, duplicates, budgets; and what it finds."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.statement_search.array_search import SearchPlan, SearchResult, reward_of, search
from benchmarks.statement_search.behaviour_set import fingerprints
from benchmarks.statement_search.confirm import confirm_hits
from benchmarks.statement_search.evaluator import behaviour
from tasks.coldstart.expression_space import STATEMENTS, SYMBOLS, Space, space_of
from tasks.coldstart.expression_states import legal_statements, replay, width_of
from tasks.coldstart.question_words import read_words
from tasks.coldstart.statement_prior import Prior, shapes
from tasks.programs.operators.builtin import numbers
from tasks.programs.sandbox import sandbox as boxes
from tasks.search.rules import RULES, Rule

pytestmark = pytest.mark.nightly

GSM8K = Path(__file__).parents[4] / "shared/data/gsm8k/train.jsonl"

QUESTIONS = [
    ("A shop sells 12 boxes of 7 pens and 15 single pens. How many pens is that?", 99),
    ("Ann earns $18 an hour. She works 7 hours on 5 days and pays 20% tax. How much is left?", 504),
    ("Ben has 90 marbles, gives 14 away and shares the rest among 4 friends. How many does each get?", 19),
    ("Of 11, 13, 17, 19, 23, 29, 31, 37 and 41 boats 3 sank in a month. How many are left in a year?", 185),
]


def spaces() -> list[Space]:
    return [space_of(f"p{i}", [question], [answer]) for i, (question, answer) in enumerate(QUESTIONS)]


def some_prior() -> Prior:
    """Random weights: laws hold for any."""
    dice = np.random.default_rng(0)
    vocabulary = {"boxes": 1, "hour": 2, "left": 3}
    weights = {name: 0.3 * dice.standard_normal(shape).astype(np.float32) for name, shape in shapes(3).items()}
    return Prior(vocabulary, weights)


def run(rule: Rule, budget: int, stop_at: int = 10**9, problems: list[Space] | None = None) -> list[SearchResult]:
    prior = some_prior() if rule == "puct" else None
    return search(problems or spaces(), SearchPlan(rule, budget, seed=1, stop_at=stop_at), prior)


@pytest.mark.parametrize("rule", RULES)
def test_a_problem_alone_or_in_any_batch_or_order_gives_the_same(rule: Rule) -> None:
    together = run(rule, 40)
    assert run(rule, 40, problems=spaces()[::-1])[::-1] == together
    for space, outcome in zip(spaces(), together, strict=True):
        assert run(rule, 40, problems=[space]) == [outcome]


@pytest.mark.parametrize("rule", RULES)
def test_budgets_are_kept_and_duplicates_cost_nothing(rule: Rule) -> None:
    for outcome in run(rule, 60):
        assert outcome.evaluations == 60
        assert outcome.iterations >= 60
    longer, shorter = run(rule, 90), run(rule, 60)
    for long, short in zip(longer, shorter, strict=True):  # a larger budget begins as a smaller one does
        assert [hit for hit in long.hits if hit[0] <= 60] == short.hits


@pytest.mark.parametrize("rule", RULES)
def test_hits_give_the_answer_and_behave_unlike_each_other(rule: Rule) -> None:
    found = 0
    easy = [space_of("e0", ["3, 5 and 7?"], [15.0]), space_of("e1", ["20 and 4 and 9?"], [5.0])]
    for space, outcome in zip(easy, run(rule, 250, problems=easy), strict=True):
        values = [behaviour(program, space) for _, program in outcome.hits]
        assert all(abs(value[0] - space.answers[0]) < 1e-6 for value in values)
        if values:
            assert len(set(fingerprints(np.stack(values)).tolist())) == len(values)
        assert [at for at, _ in outcome.hits] == sorted({at for at, _ in outcome.hits})
        found += bool(values)
    assert found


def test_enumeration_tries_short_programs_first() -> None:
    questions = [("3, 5 and 700?", 15), ("3, 5 and 700?", 715)]
    outcomes = search([space_of("p", [q], [a]) for q, a in questions], SearchPlan("enumerate", 2000, seed=0, stop_at=1))
    one, two = (len(outcome.hits[0][1]) for outcome in outcomes)
    assert (one, two) == (1, 2)


def test_random_statements_are_uniform_over_the_legal_ones() -> None:
    """One-statement programs of one question under many names: the counts of the statements drawn first."""
    question = "Ann has 3 pens and buys 5 and 11 more."
    copies = [space_of(f"c{i}", [question], [8.0]) for i in range(6000)]
    space = copies[0]
    options = np.argwhere(legal_statements(replay([space], [()], 0, width_of(space)))[0])
    eight = [1 for s, a, b in options if abs(_value(space, s, a, b) - 8) < 1e-9]
    outcomes = search(copies, SearchPlan("random", 1, seed=0, lengths=(1, 0, 0, 0, 0, 0)))
    hits = Counter(outcome.hits[0][1] for outcome in outcomes if outcome.hits)
    assert len(hits) == len(eight)
    share = 6000 / len(options)
    assert all(abs(count - share) < 5 * share**0.5 for count in hits.values())


def _value(space: Space, symbol: int, left: int, right: int) -> float:
    return float(behaviour(((SYMBOLS[symbol], left, right),), space)[0])


def test_what_is_pruned() -> None:
    space = space_of("p", ["8 and 4 and 4?"], [1])
    allowed = legal_statements(replay([space], [()], 0, width_of(space)))[0]
    eight, four, other, one, two = range(STATEMENTS, STATEMENTS + 5)
    plus, minus, times, over = range(4)
    assert allowed[plus, eight, four]
    assert not allowed[plus, four, eight]  # the mirror image
    assert allowed[minus, eight, four]
    assert not allowed[minus, four, eight]  # below 0
    assert not allowed[minus, four, other]  # 0
    assert not allowed[minus, eight, eight]
    assert not allowed[over, eight, eight]
    assert not allowed[times, eight, one]
    assert not allowed[over, eight, one]
    assert allowed[plus, eight, one]
    assert not allowed[times, one, two]  # two constants
    assert not allowed[:, :STATEMENTS].any()  # no values yet


def test_loose_values_can_still_be_joined() -> None:
    space = space_of("p", ["8 and 4 and 3?"], [1])
    steps = (("+", 6, 7), ("*", 6, 8), ("+", 7, 8), ("*", 2, 6))  # three of the four are loose, two statements are left
    allowed = legal_statements(replay([space], [steps], 4, width_of(space)))[0]
    assert allowed[0, 0, 1]
    assert not allowed[:, 6:, 6:].any()  # a fourth loose value: the last statement could not join them
    assert not allowed[:, :4, 6:].any()


def test_the_reward_orders_by_nearness_and_only_the_right_one_earns_all() -> None:
    values = np.array([[10.0, 20.0], [10.0, 19.0], [10.0, 5.0], [-10.0, 20.0], [np.nan, np.inf]])
    rewards = reward_of(values, np.tile([10.0, 20.0], (5, 1)), shaping=0.5)
    assert rewards.tolist() == pytest.approx([1, 0.5 * (1 + 0.95) / 2, 0.5 * (1 + 0.25) / 2, 0.25, 0])
    assert reward_of(values, np.tile([10.0, 20.0], (5, 1)), shaping=0.0).tolist() == [1, 0, 0, 0, 0]


def test_siblings_must_be_right_too() -> None:
    questions = ["4 rows of 6 and 2 more?", "7 rows of 3 and 5 more?"]
    space = space_of("p", questions, [26, 26])
    outcome = search([space], SearchPlan("enumerate", 1000, seed=0, stop_at=1))[0]
    with boxes.Sandbox(seconds=5.0, memory_mb=256, allow_weak=True, workers=1) as sandbox:
        found = confirm_hits([space], [outcome], [questions], sandbox)
        assert [k.evaluation for k in found] == [outcome.hits[0][0]]
        lied = SearchResult(1, 1, [(1, (("*", 6, 7),))])
        assert confirm_hits([space], [lied], [questions], sandbox) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_search_ends_where_there_is_nothing_to_try(rule: Rule) -> None:
    nothing, little = run(rule, 10**4, problems=[space_of("p", ["No number here?"], [4])]), spaces()[:1]
    assert [(outcome.evaluations, outcome.hits) for outcome in nothing] == [(0, [])]
    assert run(rule, 1, problems=little)[0].evaluations == 1


def test_places_of_quantities_are_those_that_numbers_reads() -> None:
    for question, _ in QUESTIONS:
        reading = read_words(question)
        assert len(reading.places) == len(numbers(question))
        assert all(reading.words[place] == "<number>" for place in reading.places)


def test_a_rule_that_takes_no_prior_says_so() -> None:
    with pytest.raises(ValueError, match="puct"):
        search(spaces(), SearchPlan("puct", 10, seed=0))
    with pytest.raises(ValueError, match="uct"):
        search(spaces(), SearchPlan("uct", 10, seed=0), some_prior())


@pytest.mark.skipif(not GSM8K.exists(), reason="GSM8K is not here")
def test_most_of_gsm8ks_first_problems_are_solved_without_a_prior() -> None:
    with GSM8K.open(encoding="utf-8") as lines:
        read = [json.loads(next(lines)) for _ in range(30)]
    answers = [float(record["answer"].rpartition("####")[2].replace(",", "")) for record in read]
    problems = [space_of(f"g{i}", [r["question"]], [a]) for i, (r, a) in enumerate(zip(read, answers, strict=True))]
    outcomes = search(problems, SearchPlan("enumerate", 400, seed=0, stop_at=1))
    assert sum(bool(outcome.hits) for outcome in outcomes) >= 15
