"""Words of other projects: each leads to a param or a field of Graft, and the docs have the same table."""

import re
from pathlib import Path

import pytest

from tasks.errors import GraftError
from tasks.params.file import keys_of, load_params
from tasks.params.params import Params
from tasks.params.synonyms import FIELDS, SYNONYMS
from tasks.trajectories import Member, Reward, Trajectory
from tests.support.params_file import override

REPOSITORY = Path(__file__).parents[3]
SHIPPED = (REPOSITORY / "params.yaml").read_text()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(SHIPPED)
    return path


def test_our_words_are_params_or_fields_and_theirs_are_not() -> None:
    keys = set(keys_of(Params))
    assert {ours for words in SYNONYMS.values() for ours in words} <= keys | set(FIELDS)
    assert not keys & SYNONYMS.keys()
    assert FIELDS.keys() == {"members[].code", "problem_id"}
    assert "members" in Trajectory.model_fields
    assert "code" in Member.model_fields
    assert "problem_id" in Reward.model_fields


@pytest.mark.parametrize("word", SYNONYMS)
def test_their_word_is_answered_by_ours(file: Path, word: str) -> None:
    """On the command line and in the file, alone and in a section."""
    ours = re.escape(" or ".join(map(repr, SYNONYMS[word])))
    for key in (word, f"grpo_config.{word}"):
        with pytest.raises(GraftError, match=rf"no param '{key}'; did you mean {ours}(, a field of .*)?\?$"):
            override(file, [f"{key}=4"])
    file.write_text(f"{SHIPPED}\n{word}: 4\n")
    with pytest.raises(GraftError, match=rf":\d+: no param '{word}'; did you mean {ours}(, a field of .*)?\?$"):
        load_params(file)


def test_the_docs_have_the_table() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.*) \|$", page.partition("## Words of other projects")[2])
    assert {theirs: tuple(re.findall("`(.*?)`", ours)) for theirs, ours in rows} == SYNONYMS
    assert len(rows) == len(SYNONYMS)
