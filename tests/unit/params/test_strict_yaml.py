"""YAML is plain data: anything else is an error of one line, with the file and the line number."""

import re
from pathlib import Path

import pytest

from flows.stages.dvc_yaml import declared_params, parse
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.params.strict_yaml import load_yaml
from tests.support.params_file import override

PARAMS = Path(__file__).parents[3] / "params.yaml"

MORE_THAN_DATA = {
    "!!python/object/apply:os.system ['touch ran']": "not YAML: could not determine a constructor",
    "!own 1": "not YAML: could not determine a constructor",
    "[&a 1, *a]": "the alias *a; write the value itself",
    "[" * 60 + "]" * 60: "more than 40 levels of nesting; write the value itself",
}


@pytest.fixture(params=["params.yaml", "dvc.yaml", "dvc.lock"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


def read(file: Path) -> object:
    return load_params(file) if file.name == "params.yaml" else parse(file)


@pytest.mark.parametrize("value", MORE_THAN_DATA)
def test_more_than_data_is_refused_by_its_line(value: str, file: Path) -> None:
    file.write_text(f"first: 1\nsecond: {value}\n")
    with pytest.raises(GraftError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}:2: {MORE_THAN_DATA[value]}")
    assert "\n" not in str(caught.value)
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_bomb_of_aliases_is_refused_at_once(file: Path) -> None:
    rows = ["a0: &a0 [lol, lol]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    file.write_text("\n".join(rows))
    with pytest.raises(GraftError, match=r":2: the alias \*a0"):
        read(file)
    file.write_text("one: 1\ntwo: *unknown\n")
    with pytest.raises(GraftError, match=r":2: "):
        read(file)


@pytest.mark.parametrize("text", [
    "a: 1\na: 2", "a: 1\n---\nb: 2", "a: 2026-13-45", f"a: {'9' * 5000}", "a: \x00", "a: 'x", "a:\n\tb: 1",
    "? {a: 1}\n: b", "- a", "", "null", "[" * 100_000, "{a: " * 100_000, "a: =",
])  # fmt: skip
def test_anything_but_a_mapping_is_an_error_of_one_line(text: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(GraftError, match=re.escape(str(file))) as caught:
        read(file)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("value", [*MORE_THAN_DATA, "2026-13-45", "'x", "1\nrounds: 3", "1\rseed: 2", "\x00", "="])
def test_a_value_on_the_command_line_is_data_too(value: str, tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(PARAMS.read_text())
    with pytest.raises(GraftError) as caught:
        override(file, [f"seed={value}"])
    assert "\n" not in str(caught.value)
    assert file.read_text() == PARAMS.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["params.yaml"]


def test_plain_texts_and_the_files_of_the_project_are_read() -> None:
    found = load_yaml("x", "a: '!tag'\nb: \"&a *a\"\nc: x & y * z!\nd: '<<'  # !!python &a *b\n")
    assert found == {"a": "!tag", "b": "&a *a", "c": "x & y * z!", "d": "<<"}
    assert declared_params(PARAMS.parent, "update")
    assert load_params(PARAMS)
