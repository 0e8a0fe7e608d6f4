import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.environments.protocol import Gate
from tasks.promote.gate import GateValues, decide_promotion, kept_remarks
from tasks.records.promotion import Promotion


def compare(right: list[bool], champion_right: list[bool], champion: str | None = "old") -> Promotion:
    return decide_promotion(right, champion_right, "new", champion, seed=0)


def solved(count: int, of: int = 200) -> list[bool]:
    return [i < count for i in range(of)]


def test_a_policy_is_promoted_only_if_it_clearly_beats_the_champion_or_else_the_first_policy() -> None:
    better = compare(solved(131), solved(112))
    assert better.promoted
    assert better.low > 0
    assert better.reason.startswith("promoted: 0.655 beats the champion's 0.560 by 0.095 (95 % interval 0.0")
    assert not compare(solved(90), solved(112)).promoted
    tie = compare(solved(112), solved(112))
    assert (tie.promoted, tie.difference, tie.low, tie.high) == (False, 0, 0, 0)
    assert "0.560 is not above the champion's 0.560" in tie.reason
    first = compare(solved(131), solved(112), champion=None)
    assert (first.promoted, first.champion_version) == (True, None)
    assert "the first policy's 0.560" in first.reason
    itself = compare(solved(112), solved(112), champion="new")
    assert (itself.promoted, itself.reason) == (False, "not promoted: this policy is the champion already")
    with pytest.raises(ValueError, match="argument 2"):
        compare(solved(1, of=3), solved(1, of=4))


def test_a_lead_that_may_be_chance_is_not_enough() -> None:
    ours = [i % 2 == 0 for i in range(200)]
    theirs = [i % 2 == 1 for i in range(200)]
    theirs[1] = theirs[3] = False  # 100 against 98, on other problems
    decision = compare(ours, theirs)
    assert decision.difference == pytest.approx(0.01)
    assert not decision.promoted
    assert "may be chance" in decision.reason


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_never_both_policies_beat_each_other(pairs: list[tuple[bool, bool]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = compare(ours, theirs), compare(theirs, ours)
    assert not (there.promoted and back.promoted)
    if there.promoted:
        assert there.pass_at_1 > there.champion_pass_at_1
        assert there.reason.startswith("promoted:")
    else:
        assert there.reason.startswith("not promoted:")


TOXICITY = Gate("toxicity", lower=True, kept={"distinct_texts": 0.5})


def own(values: list[float], champion_values: list[float], distinct: float, gate: Gate = TOXICITY) -> Promotion:
    """Compared by the environment's own gate, where the greedy completions say the opposite."""
    remarks = kept_remarks(gate, {"distinct_texts": 0.6}, {"distinct_texts": distinct})
    compared = GateValues(gate, values, champion_values, remarks)
    return decide_promotion(solved(0, len(values)), solved(len(values), len(values)), "new", None, seed=0, own=compared)


HIGH, LOW = [0.4 + 0.1 * (i % 3) for i in range(150)], [0.05 * (i % 3) for i in range(150)]


def test_an_environments_gate_decides_in_place_of_pass_at_1() -> None:
    better = own(LOW, HIGH, distinct=0.3)
    assert better.promoted
    assert (better.measure, better.value, better.champion_value) == (
        "toxicity",
        pytest.approx(0.05),
        pytest.approx(0.5),
    )
    assert better.reason.startswith("promoted: toxicity 0.050 against the first policy's 0.500 (95 % interval of the ")
    assert better.difference == pytest.approx(-0.45)
    worse = own(HIGH, LOW, distinct=0.6)
    assert not worse.promoted
    assert "no lead" in worse.reason
    assert not own(LOW, LOW, distinct=0.6).promoted
    assert own(HIGH, LOW, 0.6, TOXICITY._replace(lower=False)).promoted


def test_a_policy_that_repeats_itself_is_not_promoted_however_low_its_toxicity() -> None:
    collapsed = own([0.0] * 150, HIGH, distinct=0.29)
    assert not collapsed.promoted
    assert collapsed.reason.endswith("but distinct_texts is 0.290, less than 0.5 of the first policy's 0.600")
    assert kept_remarks(TOXICITY, {"distinct_texts": 0.6}, {"distinct_texts": 0.3}) == []
