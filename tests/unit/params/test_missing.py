"""Params that a file lacks are taken from the shipped file: with their comments, at their places, and nothing else."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.params.missing import SHIPPED, completed
from tests.support.params_file import override

TEXT = SHIPPED.read_text()
LINE = re.compile(r"( *)(\w+):")


def spans(text: str) -> dict[str, tuple[int, int]]:
    """Dotted name → first and last line of each param and section; before a section also the empty line."""
    lines, found, above = text.splitlines(), dict[str, tuple[int, int]](), list[str]()
    for at, line in enumerate(lines):
        if match := LINE.match(line):
            above = [*above[: len(match[1]) // 2], match[2]]
            below = (end for end in range(at + 1, len(lines)) if not lines[end].startswith(f"{match[1]} "))
            found[".".join(above)] = (at - (not lines[at - 1]), next(below, len(lines)))
    return found


SPANS = spans(TEXT)
ALONE = {"machine.alerts.unbeaten"}  # the whole section would go


def without(names: set[str]) -> str:
    gone = {at for name in names for at in range(*SPANS[name])}
    return "".join(line for at, line in enumerate(TEXT.splitlines(keepends=True)) if at not in gone)


def outermost(names: set[str]) -> set[str]:
    return {name for name in names if not any(name.startswith(f"{other}.") for other in names)}


@settings(max_examples=10, deadline=None)
@given(st.sets(st.sampled_from(sorted(SPANS.keys() - ALONE)), min_size=1, max_size=4))
def test_what_is_taken_out_of_the_shipped_file_comes_back_to_the_byte(names: set[str]) -> None:
    text, added = completed(SHIPPED, without(outermost(names)))
    assert set(added) == outermost(names)
    assert text == TEXT


def test_all_else_in_a_file_stays_as_it_is(tmp_path: Path) -> None:
    own = "# mine\nseed:   7 # lucky\n\nupdate:\n    # not too fast\n    learning_rate: 1e-4\n\n\n# the rest\n"
    own += "policy: {base: 'a/b', lora: {rank: 4}}"
    text, added = completed(Path("params.yaml"), own)
    assert {"environment", "update.epochs", "policy.dtype", "policy.lora.alpha"} <= set(added)
    lines = iter(text.splitlines())
    assert all(line in lines for line in own.splitlines()[:-1])  # in this order
    assert "    epochs: 6                    # passes over a round's samples, 1–64\n" in text
    (tmp_path / "params.yaml").write_text(text)
    params = load_params(tmp_path / "params.yaml")
    assert (params.seed, params.update.learning_rate, params.policy.base) == (7, 1e-4, "a/b")
    assert params.policy.lora is not None
    assert (params.policy.lora.rank, params.policy.lora.alpha) == (4, 32)
    assert completed(Path("params.yaml"), text) == (text, [])


def test_what_is_there_is_not_overruled() -> None:
    text = re.sub(r"(?m)^  lora:.*\n(    .*\n)+", "  lora: null\n", TEXT).replace("audit   ", "none    ")
    assert completed(SHIPPED, text) == (text, [])


@pytest.mark.parametrize(("old", "new", "message"), [
    ("  beta:", "  betta:", r":\d+: no param 'update\.betta'; did you mean 'update\.beta'\?"),
    ("  own: []", "  own: [{name: a, weight: 1}]", r":\d+: rewards\.own\.0\.term is missing; add it"),
    ("environment: workflow ", "environment: {operations: 2}", r":\d+: environment\.name is missing; add it"),
    ("    unbeaten: 7", "", r":\d+: machine\.alerts: None is no section; set its params: machine\.alerts\.unbeaten"),
])  # fmt: skip
def test_a_mistake_is_no_missing_param(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(GraftError, match=f"^{re.escape(str(file))}{message}"):
        load_params(file)


def test_the_line_of_a_mistake_is_that_of_the_file_as_it_is(tmp_path: Path) -> None:
    text = without({"problems"}).replace("  beta: 0.01", "  beta: -1")
    file = tmp_path / "params.yaml"
    file.write_text(text)
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if "beta: -1" in line)
    with pytest.raises(GraftError, match=rf":{line}: update\.beta: "):
        load_params(file)


def test_one_that_is_missing_can_be_set(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(completed(file, without({"update.kl_target"}))[0])
    assert override(file, ["update.kl_target=0.5"]) == {"update.kl_target": (None, 0.5)}
