"""Params before a run: digests of the files and folders that they name are added, missing ones refused."""

import json
from pathlib import Path

import pytest

from flows.preflight import write_params
from tasks.artifacts import digest_path
from tasks.errors import GraftError
from tasks.params.file import load_params
from tasks.sources.user_modules import digest_modules

ROOT = Path(__file__).parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    for name in ("examples/problems.jsonl", "base/config.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("{}\n")
    return tmp_path


def test_the_digest_of_a_base_folder_follows_its_content(root: Path) -> None:
    printed: list[str] = []
    first = write_params(root, ["policy.base=base"], printed.append).policy.base_sha256
    assert first == digest_path(root / "base") == load_params(root / "params.yaml").policy.base_sha256
    assert printed == ["params.yaml: policy.base: scratch → base", f"params.yaml: policy.base_sha256: None → {first}"]
    assert write_params(root, [], printed.append).policy.base_sha256 == first
    assert len(printed) == 2
    (root / "base" / "config.json").write_text('{"hidden": 1}')
    second = write_params(root, [], printed.append).policy.base_sha256
    assert second == digest_path(root / "base") != first
    assert write_params(root, ["policy.base=scratch"], printed.append).policy.base_sha256 is None
    assert write_params(root, ["policy.base=someone/model"], printed.append).policy.base_sha256 is None


def test_the_digest_of_an_adapter_covers_the_model_that_it_names(root: Path) -> None:
    config = root / "sft" / "adapter_config.json"
    config.parent.mkdir()

    def digest(content: str) -> str | None:
        config.write_text(content)
        return write_params(root, ["policy.base=sft"], lambda _: None).policy.base_sha256

    on_base, elsewhere = (
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": name}) for name in ("../base", "a/b")
    )
    first = digest(on_base)
    assert first == digest(on_base) != digest_path(root / "sft")
    assert digest(elsewhere) == digest_path(root / "sft")
    (root / "base" / "config.json").write_text("{ }\n")
    assert digest(on_base) not in (first, digest(elsewhere))


def test_the_digest_of_a_gguf_file_follows_its_content(root: Path) -> None:
    (root / "tiny.gguf").write_bytes(b"GGUF")
    assert write_params(root, ["policy.base=tiny.gguf"], print).policy.base_sha256 == digest_path(root / "tiny.gguf")
    (root / "tiny.gguf").write_bytes(b"GGUF 2")
    assert write_params(root, [], print).policy.base_sha256 == digest_path(root / "tiny.gguf")
    (root / "tiny.gguf").unlink()
    with pytest.raises(GraftError, match=r"policy\.base: no file tiny\.gguf; name a GGUF file"):
        write_params(root, [], print)
    with pytest.raises(
        GraftError, match=r"policy\.base: no file no_model/x\.gguf, and no package no_model is installed"
    ):
        write_params(root, ["policy.base=no_model/x.gguf"], print)


def test_the_digest_of_validation_trajectories_follows_their_content(root: Path) -> None:
    (root / "old.jsonl").write_text("{}\n")
    chosen = ["influence.selection=positive", "influence.validation=trajectories", "influence.trajectories=old.jsonl"]
    assert write_params(root, chosen, print).influence.trajectories_sha256 == digest_path(root / "old.jsonl")
    (root / "old.jsonl").write_text("{}\n{}\n")
    assert write_params(root, [], print).influence.trajectories_sha256 == digest_path(root / "old.jsonl")
    (root / "old.jsonl").unlink()
    with pytest.raises(GraftError, match=r"influence\.trajectories: no file old\.jsonl; name a file such as run/"):
        write_params(root, [], print)
    back = write_params(root, ["influence.validation=held_out", "influence.trajectories=null"], print)
    assert back.influence.trajectories_sha256 is None


def test_the_digest_of_a_reward_model_folder_follows_its_content(root: Path) -> None:
    chosen = ["rewards.model={base: base, weight: 1.0, batch: 16, label: null}"]
    assert write_params(root, chosen, print).rewards.model_sha256 == digest_path(root / "base")
    (root / "base" / "config.json").write_text('{"hidden": 1}')
    assert write_params(root, [], print).rewards.model_sha256 == digest_path(root / "base")
    assert write_params(root, ["rewards.model.base=someone/judge"], print).rewards.model_sha256 is None
    with pytest.raises(GraftError, match=r"rewards\.model: no folder \./judge; name a folder, or a Hugging Face id"):
        write_params(root, ["rewards.model.base=./judge"], print)


def test_the_digest_of_a_users_modules_follows_their_content_and_they_are_not_run(root: Path) -> None:
    before, module = (root / "params.yaml").read_text(), root / "manners.py"
    chosen = ['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]']
    with pytest.raises(GraftError, match=r"rewards\.own: no module 'manners' .*; put manners\.py there, or correct"):
        write_params(root, chosen, print)
    module.write_text("def polit(problem, text, results): ...\n")
    with pytest.raises(GraftError, match=r"manners\.py defines no 'polite' .*; did you mean 'polit'\?"):
        write_params(root, chosen, print)
    assert (root / "params.yaml").read_text() == before
    module.write_text("def polite(problem, text, results): ...\nraise RuntimeError('was run')\n")
    first = write_params(root, chosen, print).rewards.own_sha256
    assert first == digest_modules(root, ["manners"]) == load_params(root / "params.yaml").rewards.own_sha256
    module.write_text("def polite(problem, text, results): return 1\n")
    assert write_params(root, [], print).rewards.own_sha256 == digest_modules(root, ["manners"]) != first
    assert write_params(root, ["rewards.own=[]"], print).rewards.own_sha256 is None


def test_back_and_forth_leaves_the_file_as_it_was(root: Path) -> None:
    before = (root / "params.yaml").read_text()
    write_params(root, ["policy.base=base", "rounds=1"], print)
    assert (root / "params.yaml").read_text() != before
    write_params(root, ["policy.base=scratch", f"rounds={load_params(ROOT / 'params.yaml').rounds.last}"], print)
    assert load_params(root / "params.yaml") == load_params(ROOT / "params.yaml")


def test_a_digest_that_looks_like_a_number_stays_text(root: Path) -> None:
    """Some sha256 are digits around one `e`: YAML would read infinity."""
    number = 0
    while not digest_path(root / "base")[:12].replace("e", "", 1).isdigit():
        number += 1
        (root / "base" / "config.json").write_text(str(number))
    write_params(root, ["policy.base=base"], print)
    assert f'base_sha256: "{digest_path(root / "base")}"' in (root / "params.yaml").read_text()


def test_a_folder_named_scratch_is_not_a_base(root: Path) -> None:
    (root / "scratch").mkdir()
    assert write_params(root, [], print).policy.base_sha256 is None


@pytest.mark.parametrize(
    ("assignment", "named"),
    [("policy.base=./bass", "./bass"), ("problems.path=none.jsonl", "none.jsonl"), ("problems.path=base", "base")],
)
def test_a_missing_file_is_named_and_params_are_unchanged(root: Path, assignment: str, named: str) -> None:
    before = (root / "params.yaml").read_text()
    with pytest.raises(GraftError, match=named):
        write_params(root, ["seed=3", assignment], print)
    assert (root / "params.yaml").read_text() == before


def test_the_digest_of_an_evaluator_of_ones_own_follows_its_source(root: Path) -> None:
    (root / "judges.py").write_text("class Same:\n    pass\n")
    chosen = ["problems.source=jsonl", "problems.evaluator=judges:Same"]
    assert write_params(root, chosen, print).problems.evaluator_sha256 == digest_modules(root, ["judges"])
    (root / "judges.py").write_text("class Same:\n    limit = 1\n")
    assert write_params(root, [], print).problems.evaluator_sha256 == digest_modules(root, ["judges"])
    with pytest.raises(GraftError, match=r"problems\.evaluator: .*judges\.py defines no 'Some'.*did you mean 'Same'"):
        write_params(root, ["problems.evaluator=judges:Some"], print)
    with pytest.raises(GraftError, match=r"problems\.evaluator: write one of format, number, text, .*not 'txt'"):
        write_params(root, ["problems.evaluator=txt"], print)
    with pytest.raises(GraftError, match=r"'text' does nothing: generated problems have their own"):
        write_params(root, ["problems.source=generated", "problems.evaluator=text"], print)
    assert write_params(root, ["problems.evaluator=text"], print).problems.evaluator_sha256 is None
