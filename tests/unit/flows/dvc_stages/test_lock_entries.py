"""Laws of `dvc.lock` by its entries: DVC reads the same from it and would have written the same bytes."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from dvc.utils.serialize import _yaml, modify_yaml
from hypothesis import given
from hypothesis import strategies as st

from flows.dvc_stages.patches.lock_entries import entries, modify_lock, parse_lock

NAMES = st.from_regex(r"\A[a-z]{1,8}(@[a-z0-9]{1,3})?\Z")
TEXTS = st.text(st.characters(exclude_categories=["C"]), max_size=120)
NUMBERS = st.floats(-1e6, 1e6).map(lambda number: round(number, 6))  # of 17 digits DVC changes the last, as it rereads
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), NUMBERS, TEXTS, st.lists(TEXTS))
FILES = st.lists(st.fixed_dictionaries({"path": TEXTS, "hash": st.just("md5"), "size": st.integers(0)}), max_size=3)
ENTRIES = st.fixed_dictionaries(
    {"cmd": TEXTS},
    optional={"deps": FILES, "outs": FILES, "params": st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES))},
)


def dumped(path: Path, name: str, entry: Any, modify: Any) -> None:
    """As `dvc.dvcfile.Lockfile.dump_stages` does it."""
    with modify(path) as data:
        if not data:
            data.update({"schema": "2.0"})
        data["stages"] = data.get("stages", {})
        data["stages"].update({name: OrderedDict(entry)})


@given(st.lists(st.tuples(NAMES, ENTRIES), min_size=1, max_size=6))
def test_the_same_bytes_as_dvc_writes(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]) -> None:
    folder = tmp_path_factory.mktemp("lock")
    for folder_name, modify in (("ours", modify_lock), ("dvc", modify_yaml)):
        (folder / folder_name).mkdir()
        for name, entry in steps:
            dumped(folder / folder_name / "dvc.lock", name, entry, modify)
    text = (folder / "ours" / "dvc.lock").read_text()
    assert text == (folder / "dvc" / "dvc.lock").read_text()
    assert parse_lock(text) in (None, _yaml.parse_yaml(text, "dvc.lock"))


LOCK = """schema: '2.0'
stages:
  problems:
    cmd: graft stage problems
    outs:
    - path: run/problems
      size: 1
  search@1:
    cmd: graft stage search@1
"""


def test_the_entries_of_a_lock() -> None:
    found = entries(LOCK)
    assert found is not None
    assert [*found] == ["problems", "search@1"]
    assert parse_lock(LOCK) == _yaml.parse_yaml(LOCK, "dvc.lock")


def test_only_the_entry_that_changed_is_written_anew(tmp_path: Path) -> None:
    """A value that equals the old one, as 1 does 1.0, is a change."""
    (tmp_path / "dvc.lock").write_text(LOCK.replace("path: run", "path:  run"))
    dumped(tmp_path / "dvc.lock", "search@1", {"cmd": "another"}, modify_lock)
    assert (tmp_path / "dvc.lock").read_text() == LOCK.replace("path: run", "path:  run").replace(
        "graft stage search@1", "another"
    )
    changed = {"cmd": "graft stage problems", "outs": [{"path": "run/problems", "size": 1.0}]}
    dumped(tmp_path / "dvc.lock", "problems", changed, modify_lock)
    assert "size: 1.0" in (tmp_path / "dvc.lock").read_text()


@pytest.mark.parametrize(
    "text",
    [
        LOCK + "# a remark\n",
        LOCK + "datasets: []\n",
        LOCK.replace("  search@1", "  problems"),
        LOCK.replace("'2.0'", '"2.0"'),
        LOCK.replace("    outs:\n", "\n    outs:\n"),
        LOCK.rstrip("\n"),
        LOCK.replace("size: 1", "size: {"),
    ],
    ids=["a comment", "more", "an entry twice", "another style", "an empty line", "cut", "no YAML"],
)
def test_what_dvc_does_not_write_is_left_to_dvc(text: str) -> None:
    assert parse_lock(text) is None


def test_a_comment_is_kept_as_dvc_keeps_it(tmp_path: Path) -> None:
    (tmp_path / "dvc.lock").write_text("# mine\n" + LOCK)
    dumped(tmp_path / "dvc.lock", "search@1", {"cmd": "another"}, modify_lock)
    assert (tmp_path / "dvc.lock").read_text() == "# mine\n" + LOCK.replace("graft stage search@1", "another")


def test_nothing_is_written_where_the_writer_fails(tmp_path: Path) -> None:
    (tmp_path / "dvc.lock").write_text(LOCK)
    with pytest.raises(TypeError):
        dumped(tmp_path / "dvc.lock", "problems", None, modify_lock)
    assert (tmp_path / "dvc.lock").read_text() == LOCK
