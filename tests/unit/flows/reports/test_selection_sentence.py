"""The sentence about what decided the selection of a run."""

import pytest

from flows.reports.selection_sentence import selection_sentence

RIGHT = {"samples": 4588, "selected": 4588, "audit_right": 1, "audit_err": 0}
PART = RIGHT | {"measured": 72, "influence_positive_share": 0.69}
ERRS = RIGHT | {"audit_right": 0, "audit_err": 1}
DECIDED = ERRS | {"selected": 960, "measured": 4000, "influence_positive_share": 0.25}
UNCLEAR = RIGHT | {"audit_right": 0}
AFTER = "influence was measured on 72 of 4,588 samples in the last round, 31 % of them not above 0."
ALL = "influence was measured on 4,000 of 4,588 samples in the last round, 75 % of them not above 0."

SENTENCES = [
    ("audit", [PART] * 4, f"Nothing was dropped: the audit found rewards right in all 4 rounds; {AFTER}"),
    ("audit", [PART], f"Nothing was dropped: the audit found rewards right in round 1; {AFTER}"),
    (
        "audit",
        [PART, UNCLEAR, ERRS],
        "Nothing was dropped: the audit found rewards right in round 1, could not tell in round 2 and found that they "
        "err in round 3, where influence could not be measured; influence was measured on 72 of 4,588 samples in "
        "round 1, 31 % of them not above 0.",
    ),
    (
        "audit",
        [PART, DECIDED, DECIDED],
        "TracIn decided in rounds 2 and 3, where rewards err: 1,920 of 9,176 samples were kept, those with influence "
        f"above 0; nothing was dropped in the other rounds; {ALL}",
    ),
    (
        "positive",
        [DECIDED],
        "TracIn decided (influence.selection positive): 960 of 4,588 samples were kept, those with influence above 0; "
        + ALL,
    ),
    (
        "top",
        [DECIDED],
        "TracIn decided (influence.selection top, influence.share 0.5): those with the highest influence were kept, "
        f"960 of 4,588 samples; {ALL}",
    ),
    ("a:b", [DECIDED], f"a:b decided (influence.selection): 960 of 4,588 samples were kept; {ALL}"),
    (
        "random",
        [{"samples": 10, "selected": 5}],
        "Chance decided (influence.selection random, influence.share 0.5): a random share was kept, 5 of 10 samples.",
    ),
    (
        "positive",
        [RIGHT],
        "Nothing was dropped (influence.selection positive): influence was measured in no round, because training or "
        "validation has no sample with a signal.",
    ),
    ("none", [RIGHT], "Nothing was measured or dropped (influence.selection none)."),
    ("audit", [], None),
    ("audit", [{"selected_share": 0.5}], None),
    (None, [RIGHT], None),
]


@pytest.mark.parametrize(("selection", "rounds", "sentence"), SENTENCES)
def test_the_sentence_says_what_decided(
    selection: str | None, rounds: list[dict[str, float]], sentence: str | None
) -> None:
    params = {"influence.share": "0.5", "influence.fdr_control": "false", "influence.validation": "held_out"}
    params |= {"influence.selection": selection} if selection else {}
    assert selection_sentence(params, dict(enumerate(rounds, start=1))) == sentence


def test_control_keeps_more_than_what_is_above_0() -> None:
    params = {"influence.selection": "positive", "influence.fdr_control": "True", "influence.validation": "held_out"}
    said = selection_sentence(params, {1: DECIDED})
    assert said is not None
    assert "those with influence not clearly below 0" in said
    uncontrolled = selection_sentence(params | {"influence.validation": "same_batch"}, {1: DECIDED})
    assert uncontrolled is not None
    assert "those with influence above 0" in uncontrolled
