"""`--preset`: what it writes, and what a user's own `-S` leaves of it."""

import re
from pathlib import Path

import pytest

from flows.cli.presets import OF_A_BASE, check_base_is_named, preset, presets
from flows.preflight import write_params
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.params.strict_yaml import value_at
from tasks.records.selection import REMEDY
from tasks.select.reward_audit import AUDITED
from tests.support.params_file import override

SHIPPED = Path(__file__).parents[3] / "params.yaml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(SHIPPED.read_text())
    return path


@pytest.mark.parametrize("name", presets())
def test_what_is_set_by_hand_wins(file: Path, name: str) -> None:
    override(file, [*preset(name), "update.beta=0.5"])
    assert load_params(file).update.beta == 0.5


def test_a_problems_file_that_is_not_there_is_one_line(file: Path) -> None:
    given = preset("gpu")
    with pytest.raises(GraftError, match=r"^[^\n]*data/gsm8k/train\.jsonl[^\n]*$"):
        write_params(file.parent, given, print)
    (lines := file.parent / "data" / "gsm8k" / "train.jsonl").parent.mkdir(parents=True)
    lines.write_text('{"question": "2 and 3?", "answer": "2+3=5\\n#### 5"}\n')
    assert write_params(file.parent, given, print).problems.source == "jsonl"


@pytest.mark.parametrize(("name", "problems"), [("exact", AUDITED), ("noisy", 128)])
def test_there_are_as_many_trusted_problems_as_selection_asks_for(file: Path, name: str, problems: int) -> None:
    override(file, preset(name))
    params = load_params(file)
    assert (params.problems.validation, params.influence.n) == (problems, problems)


def test_the_remedy_for_rewards_that_err_names_params(file: Path) -> None:
    override(file, re.findall(r"-S ([^ )]+)", REMEDY))
    params = load_params(file)
    assert (params.problems.path, params.problems.validation, params.influence.selection) == ("FILE", 1, "none")


NUMBERS = {
    "manual": {
        **{"update.prompts_per_step": 4, "update.group_size": 4, "search.samples": 4, "search.simulations": 4},
        **{"policy.max_new_tokens": 256, "update.beta": 0.1, "update.learning_rate": 1e-6, "seed": 42},
        **{"search.temperature": 0.5, "search.top_p": 0.9},
    },
    "improved": {
        **{"problems.train": 200, "problems.test": 50, "rounds.last": 10, "update.learning_rate": 5e-5},
        **{"update.beta": 0.05, "search.temperature": 0.9, "evaluation.temperature": 0.8},
    },
    "published": {
        **{"update.negative_weight": 1, "update.clip_low": 0.2, "update.clip_high": 0.2},
        **{"update.loss": "grpo", "update.advantages": "group"},
    },
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_preset_has_the_numbers_of_its_source(file: Path, name: str) -> None:
    override(file, preset(name))
    values = load_params(file).model_dump()
    assert {key: value_at(values, key.split(".")) for key in NUMBERS[name]} == NUMBERS[name]


@pytest.mark.parametrize("name", OF_A_BASE)
def test_a_preset_for_a_base_asks_for_one_in_one_line(name: str) -> None:
    with pytest.raises(
        GraftError, match=rf"^--preset {name}: [^\n]*policy\.base is scratch; name one: -S policy\.base="
    ) as told:
        check_base_is_named(name, "scratch")
    assert "\n" not in str(told.value)
    check_base_is_named(name, "a/b")
    check_base_is_named("published", "scratch")
    assert not any(assignment.startswith("policy.base=") for assignment in preset(name))


def test_an_unknown_preset_is_refused_with_those_there_are() -> None:
    known = ", ".join(presets())
    with pytest.raises(GraftError, match=rf"^--preset large: there is none; name one of: {known}$"):
        preset("large")
