"""Lines that `problems.exclude` names are left out, until their key is mended."""

import json
from pathlib import Path

import pytest

from tasks.errors import GraftError
from tasks.problems.excluded import digest_line, read_excluded
from tasks.problems.jsonl import Reader, read_files

ROWS = [{"question": f"{number} and 1?", "answer": number + 1} for number in range(3)]


def lines(*rows: dict[str, object]) -> str:
    return "\n".join(map(json.dumps, rows))


def test_a_line_is_left_out_and_told_and_comes_back_with_another_key() -> None:
    first = Reader().read("a.jsonl", lines(*ROWS), "a.jsonl")[0]
    excluded, told = frozenset([digest_line(first)]), list[str]()
    left = read_files([("a.jsonl", lines(*ROWS), "a.jsonl")], Reader(excluded=excluded), told.append)
    assert [problem.answer for problem in left] == [2, 3]
    assert "a.jsonl:1: left out by problems.exclude" in told
    mended = lines(ROWS[0] | {"answer": 7}, *ROWS[1:])
    assert len(Reader(excluded=excluded).read("a.jsonl", mended, "a.jsonl")) == 3


def test_the_digest_does_not_depend_on_place_or_siblings() -> None:
    siblings = [{"question": "8 and 1?", "answer": 9}]
    (alone,) = Reader().read("a.jsonl", lines(ROWS[1]), "a.jsonl")
    _, with_siblings = Reader().read("b.jsonl", lines(ROWS[0], ROWS[1] | {"siblings": siblings}), "b.jsonl")
    assert digest_line(alone) == digest_line(with_siblings)


def test_a_line_of_the_file_is_a_digest_and_a_remark(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(f"# doubtful\n\n{'a' * 16}  # own.jsonl:3: key 7\n{'b' * 16}\n")
    assert read_excluded(tmp_path, "out.txt") == {"a" * 16, "b" * 16}
    assert read_excluded(tmp_path, None) == frozenset()
    (tmp_path / "out.txt").write_text(f"{'a' * 16}\nown.jsonl:3\n")
    with pytest.raises(GraftError, match=r"out\.txt:2: 'own\.jsonl:3' is no digest of a line; take those that"):
        read_excluded(tmp_path, "out.txt")
