"""Conversion of an older params.yaml: the shipped file, with every value that still has a meaning."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.params.convert import KEYS, SHIPPED, convert
from tasks.params.file import leaf_of, load_params
from tasks.params.renames import OF_ENVIRONMENT, REMOVED, RENAMED, present_name, removal_of
from tests.support.tiers import nightly_but_first

OLD = Path(__file__).parent / "old_files"
OLDER, OLD_FILES = OLD / "15dbcb2.yaml", sorted(OLD.glob("*.yaml"))
TEXT = SHIPPED.read_text()


def changed(text: str, section: str, **values: str) -> str:
    """With other values in a section; the file keeps its comments."""
    head, body, rest = re.split(rf"(?ms)^({section}:.*?)(?=^\S|\Z)", text, maxsplit=1)
    for name, value in values.items():
        body, count = re.subn(rf"(?m)^(  {name}:) +[^#\n]*", lambda found, to=value: f"{found[1]} {to}  ", body)  # type: ignore[misc]
        assert count == 1, name
    return head + body + rest


def value_at(path: Path, text: str, key: str) -> Any:
    path.write_text(convert(path, text).text)
    value: Any = load_params(path)
    for part in key.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("file", OLD_FILES, ids=lambda file: file.stem)
def test_an_old_file_with_its_shipped_values_becomes_the_shipped_file(file: Path) -> None:
    """But for the defaults that have changed since: what a file says stays as it is."""
    found = convert(file, file.read_text())
    older = TEXT.replace("selection: audit", "selection: none ").replace("tokens: auto", "tokens: 2048")
    older = older.replace("epochs: auto", "epochs: 8   ")
    assert found.text == older
    assert found.removed


def test_a_file_in_the_present_form_stays_as_it_is() -> None:
    text = TEXT.replace("seed: 0 ", "seed: 7 ") + "# a remark\n"
    assert convert(Path("params.yaml"), text) == (text, {})


@pytest.mark.parametrize(
    ("section", "old", "new", "value"),
    [
        ("grpo", {"clip_high": "2.5"}, "update.clip_high", 2.5),
        ("tracking", {"uri": '""'}, "machine.tracking.uri", ""),
        ("schedule", {"retries": "5"}, "machine.schedule.retries", 5),
        ("runner", {"kind": "dask", "address": "tcp://a:1"}, "machine.runner.address", "tcp://a:1"),
        ("search", {"simulations": "99"}, "search.simulations", 99),
        ("evaluation", {"ks": "[1, 3]"}, "evaluation.ks", [1, 3]),
        ("rewards", {"environment": "{mark: 2.0}"}, "rewards.environment", {"mark": 2.0}),
        ("sampler", {"kind": "vllm", "dtype": "float16", "address": "http://a/v1"}, "vllm", "float16"),
        ("rounds", {"last": "1", "start": '{"1": 0}'}, "rounds.last", 1),
    ],
)
@pytest.mark.parametrize("file", nightly_but_first(OLD_FILES), ids=lambda file: file.stem)
def test_a_value_is_carried_over(
    file: Path, tmp_path: Path, section: str, old: dict[str, str], new: str, value: object
) -> None:
    text = file.read_text()
    name = section if re.search(rf"(?m)^{section}:", text) else present_name(section)
    assert value_at(tmp_path / "params.yaml", changed(text, name, **old), new) == value


def test_a_target_of_the_kl_of_a_token_is_none_of_a_completion(tmp_path: Path) -> None:
    text = changed(OLDER.read_text(), "grpo", kl_target="0.02")
    assert value_at(tmp_path / "params.yaml", text, "update.kl_target") is None
    assert convert(OLDER, text).removed[REMOVED["update.kl_horizon"]] == ["grpo.kl_horizon: 1000"]


def test_the_type_of_an_engine_that_is_not_used_has_no_use(tmp_path: Path) -> None:
    assert value_at(tmp_path / "params.yaml", changed(OLDER.read_text(), "sampler", dtype="float16"), "vllm") is None


def test_params_of_an_environment_become_its_own_and_those_of_others_go(tmp_path: Path) -> None:
    text = changed(OLDER.read_text(), "rookworld", notation="list", temperature="{P: 0.5}")
    chess = value_at(
        tmp_path / "params.yaml", text.replace("environment: workflow", "environment: rookworld"), "environment"
    )
    assert chess.name == "recipes.chess:RookWorld"
    assert (chess.params["notation"], chess.params["temperature"]) == ("list", {"P": 0.5})
    assert "toxicity_floor" not in chess.params
    assert value_at(tmp_path / "params.yaml", text, "environment").params == {}
    strict = changed(text, "rewards", strict="true").replace("environment: workflow", "environment: answer")
    assert value_at(tmp_path / "params.yaml", strict, "environment").params == {"strict": True}


def test_what_was_removed_is_listed_with_its_value() -> None:
    text = changed(OLDER.read_text(), "influence", exclude_self="false")
    assert convert(OLDER, text).removed[REMOVED["influence.exclude_self"]] == ["influence.exclude_self: False"]


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("runner", {"kind": "threads"}, r"machine\.runner\.kind: .*not 'threads'"),
        ("grpo", {"loss": "bnpo"}, r"update\.loss: .*not 'bnpo'"),
        ("search", {"samples": "200"}, r"search: simulations \(16\) must be at least samples \(200\)"),
    ],
)
def test_a_value_without_a_meaning_is_refused(section: str, values: dict[str, str], message: str) -> None:
    with pytest.raises(GraftError, match=rf"^params\.yaml: {message}"):
        convert(Path("params.yaml"), changed(OLDER.read_text(), section, **values))


def test_a_param_that_never_was_is_refused() -> None:
    with pytest.raises(GraftError, match=r"no param 'grpo\.clip_hihg'"):
        convert(Path("params.yaml"), OLDER.read_text().replace("clip_high:", "clip_hihg:"))


@pytest.mark.parametrize("key", [*RENAMED, *OF_ENVIRONMENT])
def test_every_old_name_has_a_present_one(key: str) -> None:
    name = present_name(key)
    assert name in KEYS or name.startswith("environment.")
    assert present_name(name) == name
    assert key not in KEYS
    assert removal_of(name) is None


@given(st.sampled_from(sorted(KEYS - RENAMED.keys())))
def test_a_present_name_is_neither_old_nor_removed(key: str) -> None:
    assert present_name(key) == key
    assert removal_of(key) is None
    assert leaf_of(key)
