"""Files of stories are read as records, or the entry that is wrong is named."""

from pathlib import Path

import pytest

from tasks.environments.word_problems.grammar import Part
from tasks.environments.word_problems.quantities import plain, read_data, shared_words, whole
from tasks.errors import GraftError

PART = """
events:
- name: gain
  gives: things
  solution: q + x
  tellings: ["{who} gets {x} more {item}."]
  quantities: {x: {whole: [3, 9]}, age: age}
  items: fruit
"""


def read(path: Path, text: str) -> Part:
    path.write_text(text)
    return read_data(path, dict[str, tuple[Part, ...]])["events"][0]


def test_quantities_are_written_out_or_shared(tmp_path: Path) -> None:
    part = read(tmp_path / "parts.yaml", PART)
    assert part.quantities == {"x": whole(3, 9), "age": plain(15, 70)}
    assert part.items == shared_words().items["fruit"]


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("age: age", "age: agee", r"quantities\.age: 'agee' is no quantity"),
        ("whole: [3, 9]", "whales: [3, 9]", r"quantities\.x: \{'whales': \[3, 9\]\} is no quantity"),
        ("items: fruit", "items: fruits", "items: 'fruits' names no items"),
        ("  gives: things\n", "", r"gives: "),
        ("gives:", "takes: x\n  give:", r"events\.0\.give"),
        ("items: fruit", "items: [fruit", "not YAML"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    path = tmp_path / "parts.yaml"
    with pytest.raises(GraftError, match=f"^{path}.*{message}.*; "):
        read(path, PART.replace(right, wrong))
