"""What a killed search leaves is read back; damaged lines are ignored."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.model.sampling.sampler import Request
from tasks.records.programs import Result
from tasks.records.search import Completion
from tasks.search.journal import EvaluatedCompletion, FinishedBatch, Journal, batch_name

VALUES: list[int | float | str | None] = [3, 3.0, 10**30, 1e-9, "drei\n 3", "", None]


def batch(number: int) -> FinishedBatch:
    written = [
        EvaluatedCompletion(
            completion=Completion(tokens=[number, i], logprobs=[-0.123457, -1e-06]),
            results=[Result(status="ok", value=value), Result(status="error", error="ZeroDivisionError: ü\r")],
        )
        for i, value in enumerate(VALUES)
    ]
    return FinishedBatch(name=f"name-{number}", written=written)


BATCHES = [batch(number) for number in range(3)]


def fill(path: Path) -> bytes:
    journal = Journal(path)
    for each in BATCHES:
        journal.add(each)
    return path.read_bytes()


def known(path: Path) -> list[FinishedBatch]:
    journal = Journal(path)
    found = [journal.batch(each.name) for each in BATCHES]
    assert journal.completions == sum(len(each.written) for each in found if each)
    return [each for each in found if each is not None]


def test_what_is_added_is_read_back_to_the_type(tmp_path: Path) -> None:
    path = tmp_path / "below" / "search.jsonl"
    assert known(path) == []
    fill(path)
    assert known(path) == BATCHES
    values = [[written.results[0].value for written in each.written] for each in known(path)]
    assert [[(type(value), value) for value in own] for own in values] == [[(type(v), v) for v in VALUES]] * 3
    assert Journal(path).batch("name-3") is None


@given(st.data())
def test_a_torn_journal_keeps_its_complete_lines_and_can_be_continued(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "search.jsonl"
    text = fill(path)
    cut = data.draw(st.integers(0, len(text)))
    path.write_bytes(text[:cut])
    found = known(path)
    assert found == BATCHES[: len(found)]
    assert len(found) >= text[:cut].count(b"\n") - 1
    journal = Journal(path)
    for each in BATCHES[len(found) :]:
        journal.add(each)
    assert known(path) == BATCHES


@given(st.data())
def test_a_damaged_line_is_ignored_and_the_others_are_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "search.jsonl"
    text = bytearray(fill(path))
    text[data.draw(st.integers(0, len(text) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(text)
    found = known(path)
    assert len(found) >= 1
    assert all(each in BATCHES for each in found)
    assert len(found) >= 2 or text.count(b"\n") != 3  # a line break that was lost or made harms its neighbour


def test_a_batch_is_named_by_seeds_prompts_and_prefixes() -> None:
    first, prefix = Request([1, 2], seed=3), Completion(tokens=[2], logprobs=[0.0])
    others = [[Request([1, 2], seed=4)], [Request([1], seed=3)], [Request([1, 2], 3, prefix)], [first, first], []]
    assert batch_name([first]) == batch_name([Request([1, 2], seed=3)])
    assert len({batch_name(requests) for requests in [[first], *others]}) == 6
