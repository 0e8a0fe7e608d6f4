"""Laws of confirmation: on problems that no gate has seen, and its lead is the one that counts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.artifacts import read_json, write_jsonl
from tasks.environments.protocol import Gate
from tasks.layout import Layout
from tasks.promote.gate import SAMPLED, GateValues, confirm_promotion, decide_promotion
from tasks.promote.opponent import results_of, share_right
from tasks.promote.task import run
from tasks.promote.unseen import Use, count_use, unseen_problems
from tasks.records.evaluation import Attempt
from tasks.records.problems import Problem
from tasks.records.programs import Result
from tasks.records.promotion import Promotion
from tests.support.records import make_outcome
from tests.support.stage_params import stage_params
from tests.unit.promote.test_gate import solved
from tests.unit.promote.test_promotion_task import boxes, finished_run, make_problems

BETTER = decide_promotion(solved(131), solved(112), "new", "old", seed=0)


def test_the_confirmed_lead_decides_and_is_the_one_that_is_reported() -> None:
    sure = confirm_promotion(BETTER, solved(125), solved(112), seed=0, fresh=True)
    assert sure.promoted
    assert sure.confirmation is not None
    assert (sure.lead[0], BETTER.lead[0]) == (pytest.approx(13 / 200), pytest.approx(19 / 200))
    assert sure.reason.startswith(f"{BETTER.reason}; confirmed: by 0.065 on 200 new problems (95 % sure of 0.0")
    chance = confirm_promotion(BETTER, solved(113), solved(112), seed=0, fresh=False, uses=3)
    assert not chance.promoted
    assert not chance.worse  # it is not served, but built on
    assert chance.reason.startswith("not promoted: 0.655 beats the champion's 0.560 by 0.095 (95 % interval 0.0")
    assert "; not confirmed: by 0.005 on 200 problems set aside (use 3) (95 % sure of 0.000 or more)" in chance.reason


def test_a_lead_of_one_side_is_enough_to_confirm_and_less_may_be_better() -> None:
    ours, theirs = [True] * 20 + [False] * 180, [False] * 20 + [True] * 10 + [False] * 170  # z is 1.8
    assert not decide_promotion(ours, theirs, "new", "old", seed=0).promoted
    assert confirm_promotion(BETTER, ours, theirs, seed=0, fresh=True).promoted
    less = GateValues(Gate("toxicity", lower=True, kept={}), [0.1, 0.2] * 50, [0.3, 0.2] * 50, ())
    more = less._replace(values=less.champion_values, champion_values=less.values)
    both = [confirm_promotion(BETTER, solved(100), solved(100), seed=0, fresh=True, own=own) for own in (less, more)]
    assert [decision.promoted for decision in both] == [True, False]
    assert both[0].lead[0] == pytest.approx(-0.1)


def test_fresh_problems_are_of_the_same_kinds_and_new_for_each_policy(tmp_path: Path) -> None:
    from tasks.problems.task import run as write_problems

    sizes = {"train": 30, "validation": 4, "test": 40, "dev": 3, "siblings": 1, "confirm": 40}
    layout, params = Layout(tmp_path), stage_params("promote", problems=sizes)
    write_problems(layout, stage_params("problems", problems=sizes), None)
    first, again, other = (unseen_problems(layout, params, name, None) for name in ("one", "one", "two"))
    assert (first.fresh, len(first.problems), first.problems) == (True, 40, again.problems)
    splits = [problem for path in (tmp_path / "run" / "problems").glob("*.jsonl") for problem in read_all(path)]
    asked = [{q for problem in some for q in problem.questions} for some in (first.problems, other.problems, splits)]
    assert not asked[0] & asked[1]
    assert not asked[0] & asked[2]
    shares = [sum(p.seen is False for p in some) for some in (first.problems, read_all(layout.problems("test")))]
    assert shares == [10, 10]
    known = {problem.template for problem in splits if problem.seen}
    assert {problem.template for problem in first.problems if problem.novelty == "composition"}.isdisjoint(known)


def read_all(path: Path) -> list[Problem]:
    return [Problem.model_validate_json(line) for line in path.read_text().splitlines()]


def test_what_a_file_has_left_is_set_aside_and_its_uses_are_counted(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    params = stage_params("promote", problems={"source": "jsonl", "confirm": 40})
    write_jsonl(layout.problems("confirm"), boxes(40))
    uses = [unseen_problems(layout, params, version, None).uses for version in ("one", "one", "two", "one")]
    assert uses == [1, 1, 2, 2]
    assert count_use(tmp_path, Use(version="three", champion="one", problems=["p1", "new"])) == 3
    assert count_use(tmp_path, Use(version="four", champion="one", problems=["new"])) == 2


WRONG, RIGHT = (f"def solve(problem):\n    n = numbers(problem)\n    return n[0] {sign} n[1]\n" for sign in "+*")


@pytest.mark.parametrize(("program", "count", "promoted", "told"), [
    (RIGHT, 40, True, "; confirmed: by 1.000 on 40 problems set aside (use 1) (95 % sure of 0.8"),
    (WRONG, 40, False, "; not confirmed: by 0.000 on 40 problems set aside (use 1) (95 % sure of 0.000 or more)"),
    (WRONG, 20, True, "; not confirmed: 20 lines are left; 30 are needed"),
])  # fmt: skip
def test_the_stage_measures_both_policies_on_the_problems_set_aside(
    tmp_path: Path, make_solver: Callable[[Path, str], str], program: str, count: int, promoted: bool, told: str
) -> None:
    layout = finished_run(tmp_path, "one", before=10, after=25)
    make_solver(layout.policy(0), WRONG)
    version = make_solver(layout.run_policy, program)
    write_jsonl(
        layout.problems("confirm"), make_problems(*((f"{i} boxes of 5 pens?", 5 * i) for i in range(3, count + 3)))
    )
    changes = {"problems": {"source": "jsonl", "confirm": 40}, "policy": {"max_new_tokens": 96}}
    run(layout, stage_params("promote", **changes), None)
    decision = read_json(layout.promotion, Promotion)
    assert (decision.promoted, layout.champion.exists(), decision.version) == (promoted, promoted, version)
    assert told in decision.reason


def test_samples_are_compared_where_they_are_what_matters() -> None:
    outcomes = [make_outcome(f"p{i}", greedy=False, samples=20, correct=i % 20) for i in range(40)]
    found = results_of(outcomes, SAMPLED)
    assert found.values == [i % 20 / 20 for i in range(40)]
    values = [float(value or 0) for value in found.values]
    own = GateValues(SAMPLED, [min(value + 0.1, 1.0) for value in values], values, ())
    decision = decide_promotion(found.right, found.right, "new", "old", seed=0, own=own)
    assert decision.promoted
    assert decision.reason.startswith("promoted: pass@1 sampled 0.57")
    result, named = Result(status="ok", value=1), {"problem_id": "p", "siblings_passed": None}
    attempts = [Attempt(code=str(n), greedy=n == 0, samples=n, right=n > 1, result=result, **named) for n in range(4)]
    assert share_right(attempts) == 5 / 6


def test_the_report_names_the_smallest_lead_that_the_night_could_have_seen() -> None:
    decision = decide_promotion(solved(114), solved(112), "new", "old", seed=0)
    assert decision.power.startswith("The smallest lead that 200 test problems like these show (4 times of 5): 0.02")
    assert decision.power.endswith("; a third of it takes 1,800.")
