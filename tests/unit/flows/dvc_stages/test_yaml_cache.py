"""A text of YAML is parsed once, and nobody can tell."""

from typing import Any

from dvc.utils import strictyaml
from dvc.utils.serialize import _yaml

from flows.dvc_stages.patches.yaml_cache import KEPT, remember_parsed, remembering


class Counting:
    """DVC's own parser, which counts how often it parses."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, text: str, path: str, typ: str = "safe") -> Any:
        self.times += 1
        return _yaml.parse_yaml(text, path, typ)


def test_a_text_is_parsed_once_and_a_change_of_it_is_seen() -> None:
    parse = Counting()
    remembered = remembering(parse)
    for text, times in (("a: [1]\n", 1), ("a: [1]\n", 1), ("a: [2]\n", 2), ("a: [1]\n", 2), ("a: ü\n", 3)):
        assert remembered(text, "dvc.lock") == _yaml.parse_yaml(text, "dvc.lock")
        assert parse.times == times


def test_what_one_does_with_it_the_next_does_not_see() -> None:
    remembered = remembering(Counting())
    remembered("a: [1]\n", "dvc.lock")["a"].append(2)
    assert remembered("a: [1]\n", "dvc.lock") == {"a": [1]}


def test_what_is_read_to_be_written_is_read_anew() -> None:
    """Its comments and its style hang on objects that the writer changes."""
    parse = Counting()
    remembered = remembering(parse)
    first, second = (remembered("a: 1  # one\n", "dvc.yaml", typ="rt") for _ in range(2))
    assert first is not second
    assert parse.times == 2


def test_no_more_texts_are_kept_than_are_looked_at() -> None:
    parse = Counting()
    remembered = remembering(parse)
    for number in range(KEPT + 1):
        remembered(f"a: {number}\n", "dvc.lock")
    remembered(f"a: {KEPT}\n", "dvc.lock")
    assert parse.times == KEPT + 1
    remembered("a: 0\n", "dvc.lock")
    assert parse.times == KEPT + 2


def test_dvc_is_changed_once() -> None:
    remember_parsed()
    once = _yaml.parse_yaml
    remember_parsed()
    assert once is _yaml.parse_yaml is strictyaml.parse_yaml
