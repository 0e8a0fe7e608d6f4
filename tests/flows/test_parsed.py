"""A file of DVC's is parsed once for each of its texts, and nobody can tell."""

from pathlib import Path
from typing import Any

from dvc.utils import strictyaml

from flows.parsed import remember_parsed, remembering


class Counting:
    """DVC's own `load`, which counts how often it parses."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, *arguments: Any, **named: Any) -> tuple[Any, str]:
        self.times += 1
        found: tuple[Any, str] = strictyaml.load(*arguments, **named)
        return found


def test_a_text_is_parsed_once_and_a_change_of_it_is_seen(tmp_path: Path) -> None:
    file, load = tmp_path / "dvc.lock", Counting()
    remembered = remembering(load)
    for text, times in (("a: [1]\n", 1), ("a: [1]\n", 1), ("a: [2]\n", 2), ("a: [1]\n", 3), ("a: ü\n", 4)):
        file.write_text(text)
        assert remembered(str(file)) == strictyaml.load(str(file))
        assert load.times == times


def test_what_one_does_with_it_the_next_does_not_see(tmp_path: Path) -> None:
    file = tmp_path / "dvc.lock"
    file.write_text("a: [1]\n")
    remembered = remembering(Counting())
    remembered(str(file))[0]["a"].append(2)
    assert remembered(str(file))[0] == {"a": [1]}


def test_what_is_read_to_be_written_is_read_anew(tmp_path: Path) -> None:
    """Its comments and its style hang on objects that the writer changes."""
    file, load = tmp_path / "dvc.yaml", Counting()
    file.write_text("a: 1  # one\n")
    remembered = remembering(load)
    first, second = (remembered(str(file), round_trip=True)[0] for _ in range(2))
    assert first is not second
    assert load.times == 2


def test_dvc_is_changed_once() -> None:
    remember_parsed()
    once = strictyaml.load
    remember_parsed()
    assert strictyaml.load is once
