"""A policy is taken only if each of its files is as it was written."""

import json
from pathlib import Path

import pytest

from tasks.artifacts import digest_path, read_json, write_json
from tasks.errors import GraftError
from tasks.model.checkpoints.version import digest_policy, verify_policy
from tasks.records.policy import Lineage
from tests.support.damaged_policies import (
    BEFORE_A_RUN,
    TAKERS,
    WAYS,
    damages,
    project_of_policies,
    refuses,
    save_whole_policy,
)


def test_no_damage_of_a_file_is_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    save_whole_policy(folder)
    before = digest_path(folder)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names > {"tokenizer.json", "prompt.json", "model.safetensors", "value_head.safetensors", "lineage.json"}
    assert set(read_json(folder / "lineage.json", Lineage).files or {}) == names
    tried = 0
    for damage in damages(folder):
        tried += 1
        assert refuses(lambda _: verify_policy(folder), tmp_path, folder), damage
    assert tried == len(names) * (len(WAYS) + 2) + 1
    assert digest_path(folder) == before
    assert verify_policy(folder) == read_json(folder / "lineage.json", Lineage)


@pytest.mark.parametrize("field", ["parent", "round", "holds", "files"])
def test_no_field_of_the_lineage_can_be_changed(field: str, tmp_path: Path) -> None:
    save_whole_policy(tmp_path)
    path = tmp_path / "lineage.json"
    plain = json.loads(path.read_bytes())
    plain[field] = {"parent": "beef", "round": 2, "holds": ["weights"], "files": {}}[field]
    path.write_text(json.dumps(plain))
    with pytest.raises(GraftError, match=r"does not belong to it|lineage\.json: is damaged, by the digests"):
        verify_policy(tmp_path)


def test_the_tokens_of_a_champion_cannot_be_swapped_wherever_it_is_taken(tmp_path: Path) -> None:
    project_of_policies(tmp_path)
    for name, (place, take) in TAKERS.items():
        file = tmp_path / place / "tokenizer.json"
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(WAYS["two tokens swapped"](content))
        assert refuses(take, tmp_path, file), name
        file.write_bytes(content)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_damaged_start_is_refused_before_a_run(tmp_path: Path) -> None:
    place, take = BEFORE_A_RUN
    save_whole_policy(tmp_path / place)
    file = tmp_path / place / "tokenizer.json"
    file.write_bytes(WAYS["two tokens swapped"](file.read_bytes()))
    assert refuses(take, tmp_path, file)


def test_an_older_policy_without_digests_is_verified_by_its_version(tmp_path: Path) -> None:
    save_whole_policy(tmp_path)
    lineage = read_json(tmp_path / "lineage.json", Lineage)
    older = lineage.model_copy(update={"files": None})
    write_json(tmp_path / "lineage.json", older)
    assert '"files"' not in (tmp_path / "lineage.json").read_text()
    assert verify_policy(tmp_path, lineage.version) == older
    assert digest_policy(tmp_path, older) == lineage
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(GraftError, match="its weights are damaged"):
        verify_policy(tmp_path)


@pytest.mark.parametrize(
    ("taker", "name"), [("approval", "champion.json"), ("rollback", "promotion.json"), ("export", "champion.json")]
)
def test_records_that_name_another_policy_are_not_copied(taker: str, name: str, tmp_path: Path) -> None:
    project_of_policies(tmp_path)
    place, take = TAKERS[taker]
    file = (tmp_path / place).with_name(name)
    record = json.loads(file.read_bytes())
    file.unlink()
    write_json(file, record | {"version": "beef"})
    before = digest_path(tmp_path / "champion")
    message = r"its weights are damaged or belong|champion\.json: is of policy beef|promotion\.json: is of policy"
    with pytest.raises(GraftError, match=message):
        take(tmp_path)
    assert digest_path(tmp_path / "champion") == before
    assert not (tmp_path / "out").exists()
