"""Splits for life: over many nights, what a policy's lineage learnt from is never tested on."""

import pytest

from tasks.environments.protocol import Environment
from tasks.errors import GraftError
from tasks.known_problems import NOTHING, keys_of
from tasks.params.sections import Problems
from tasks.problems.environment_problems import written_problems
from tasks.problems.splits import split_problems
from tasks.records.problems import Problem, Split
from tasks.seeds import derive_seed
from tests.support.histories import FORMS, NIGHTS, asked, live, sizes_of
from tests.support.stage_params import shipped_params

HISTORIES = 300


def test_over_300_histories_no_test_problem_was_ever_learnt_from_and_without_the_record_many_were() -> None:
    recorded = [live(number, remembers=True) for number in range(HISTORIES)]
    assert sum(each.tested_on_trained for each in recorded) == 0
    assert sum(each.trained_on_tested for each in recorded) == 0
    assert sum(each.nights for each in recorded) > 0.75 * NIGHTS * HISTORIES
    ranks_alone = [live(number, remembers=False) for number in range(HISTORIES // 10)]
    assert sum(each.tested_on_trained for each in ranks_alone) > 5 * len(ranks_alone)


@pytest.mark.parametrize("dev", [0, 7])
def test_a_file_with_no_line_to_spare_is_split_on_each_night_of_a_sliding_window(dev: int) -> None:
    """Ten lines leave and ten arrive: the test problems that left are replaced, the others stay."""
    sizes, known = sizes_of(40, 10, 20, dev), NOTHING
    before = set[int]()
    for night in range(12):
        listed = FORMS[0][10 * night : 10 * night + 70 + dev]
        splits = split_problems("data", listed, sizes, 0, known)
        assert {split: len(own) for split, own in splits.items()} == sizes.splits | {"confirm": 0}
        here = asked(listed)
        assert before & here <= asked(splits["test"])
        before, known = asked(splits["test"]), known.with_run(splits)


def test_new_lines_take_part_in_test_by_their_share_and_what_left_it_is_not_learnt_from() -> None:
    first = split_problems("data", FORMS[0][:90], sizes_of(), 0)
    known = NOTHING.with_run(first)
    grown = split_problems("data", FORMS[0][:180], sizes_of(), 0, known)
    fresh = asked(grown["test"]) - asked(first["test"])
    assert 4 <= len(fresh) <= 16
    assert min(fresh) >= 70
    assert asked(first["test"]).isdisjoint(asked([*grown["train"], *grown["validation"]]))


def test_the_record_holds_the_questions_of_siblings_and_makes_two_lines_with_one_in_common_the_same() -> None:
    listed: dict[Split, list[Problem]] = {"train": FORMS[2][:1], "validation": [], "test": FORMS[0][5:6], "dev": []}
    known = NOTHING.with_run(listed)
    assert set(known.learnt) == keys_of(FORMS[2][0]) > keys_of(FORMS[0][0]) == keys_of(FORMS[1][0])
    assert set(known.tested) == keys_of(FORMS[1][5])
    assert known.with_run(listed) == known


@pytest.mark.parametrize(("sizes", "message"), [
    (sizes_of(train=30, test=35), "30 problems for test, but .* asks for 35, .*base learnt from them; .*ask for 30,"),
    (sizes_of(train=55, test=15), r"60 problems for validation \+ train, .* asks for 65, .* was tested on them"),
    (sizes_of(train=30, dev=20), "10 problems for dev, but problems.dev asks for 20"),
])  # fmt: skip
def test_too_few_problems_are_an_error_with_their_number_and_the_remedy(sizes: Problems, message: str) -> None:
    """Of 80 lines 50 were learnt from, 20 tested on."""
    known = NOTHING.with_run(split_problems("data", FORMS[0][:80], sizes_of(), 0))
    with pytest.raises(GraftError, match=f"^data: {message}") as error:
        split_problems("data", FORMS[0][:80], sizes, 1, known)
    assert "add lines" in str(error.value)


STARTS: dict[int, dict[Split, int]] = {
    0: {"test": 0, "train": 50, "validation": 80, "dev": 0},
    1: {"test": 35, "train": 120, "validation": 15, "dev": 0},
    2: {"test": 54, "train": 120, "validation": 200, "dev": 0},
}
"""Seed → the first problem of each split."""


class Writer(Environment):
    """Writes problems that depend on the seed."""

    def problems(self, sizes: Problems, seed: int) -> dict[Split, list[Problem]]:
        return {split: FORMS[0][first:][: sizes.splits[split]] for split, first in STARTS[seed].items()}

    prompt = text = score = None  # type: ignore[assignment]


def test_an_environment_is_asked_for_more_where_a_lineage_knows_what_it_writes() -> None:
    params = shipped_params(problems={"train": 20, "validation": 5, "test": 20})
    first = written_problems(Writer(), params, NOTHING)
    known = NOTHING.with_run(first)
    assert written_problems(Writer(), params, known) == first
    second = written_problems(Writer(), params.model_copy(update={"seed": 1}), known)
    assert {split: len(own) for split, own in second.items()} == dict(params.problems.splits)
    assert asked(second["test"]) == {*range(35, 50), *range(70, 75)}
    assert asked(second["validation"]) == {*range(20, 25)}
    message = r"writes 19 problems for test that .*, but problems\.test is 20; ask for fewer"
    with pytest.raises(GraftError, match=message):
        written_problems(Writer(), params.model_copy(update={"seed": 2}), known)


def test_without_a_record_the_splits_are_slices_of_the_ranks() -> None:
    order = sorted(FORMS[0][:90], key=lambda problem: derive_seed(3, "problems", problem.problem_id))
    slices = {"test": order[:20], "validation": order[20:30], "train": order[30:70], "dev": order[70:75], "confirm": []}
    assert split_problems("data", FORMS[0][:90], sizes_of(dev=5), 3) == slices
