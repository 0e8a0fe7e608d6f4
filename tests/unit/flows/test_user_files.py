"""Law: a digest of what a param names follows its content; what is missing is named."""

import json
from pathlib import Path

import pytest

from flows.stages.dvc_yaml import MODULES, declared_params
from flows.stages.user_files import digests_for, user_files
from tasks.artifacts import digest_path
from tasks.errors import GraftError
from tasks.params.file import overridden
from tasks.sources.user_modules import digest_modules

ROOT = Path(__file__).parents[3]
SHIPPED = (ROOT / "params.yaml").read_text()

MODULE = "def polite(problem, text, results): ...\nclass Same: ...\ndef keep(measured): ...\n"
MODULE += "def loss(logprobs, ratio, advantages, objective): ...\ndef advantages(groups): ...\n"
EVERY_PARAM = {
    "environment.name": ["environment=manners:Same"],
    "problems.evaluator": ["problems.source=jsonl", "problems.evaluator=manners:Same"],
    "environment.prompts": ["environment={name: answer, prompts: lines.jsonl}"],
    "policy.base": ["policy.base=base"],
    "policy.prompt.file": ["policy.prompt.file=lines.jsonl"],
    "bootstrap.demonstrations": ["bootstrap.demonstrations=lines.jsonl"],
    "rewards.own": ['rewards.own=[{name: polite, term: "manners:polite", weight: 0.5}]'],
    "search.rule": ["search.rule=manners:Same"],
    "influence.selection": ["influence.selection=manners:keep"],
    "update.loss": ["update.loss=manners:loss"],
    "update.advantages": ["update.advantages=manners:advantages"],
}
READERS = {
    "environment.name": set(MODULES) - {"choose", "update"},
    "problems.evaluator": {"problems", "promote"},
    "environment.prompts": set(MODULES) - {"choose", "update"},
    "policy.base": {"bootstrap"},
    "policy.prompt.file": {"bootstrap"},
    "bootstrap.demonstrations": {"problems", "coldstart", "bootstrap"},
    "rewards.own": {"reward", "select"},
    "search.rule": {"search"},
    "influence.selection": {"select"},
    "update.loss": {"select", "update"},
    "update.advantages": {"select", "update"},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "manners.py").write_text(MODULE + "raise RuntimeError('was run')\n")
    (tmp_path / "lines.jsonl").write_text("{}\n")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}\n")
    return tmp_path


def digests(root: Path, assignments: list[str]) -> dict[str, str]:
    params = overridden(root / "params.yaml", SHIPPED, assignments)[1]
    return {param: digest() for param, digest in user_files(root, params).items()}


def test_the_shipped_params_name_nothing(root: Path) -> None:
    (root / "scratch").mkdir()  # a folder of this name is not a base
    assert digests(root, []) == {}


@pytest.mark.parametrize("param", EVERY_PARAM)
def test_the_digest_follows_the_content_and_the_agreed_stages_read_it(root: Path, param: str) -> None:
    """No module is run for it."""
    files = user_files(root, overridden(root / "params.yaml", SHIPPED, EVERY_PARAM[param])[1])
    assert {stage for stage in MODULES if digests_for(files, declared_params(ROOT, stage))} == READERS[param]
    before = digests(root, EVERY_PARAM[param])
    kinds = {"manners.py": digest_modules(root, ["manners"]), "lines.jsonl": digest_path(root / "lines.jsonl")}
    assert before.keys() == {param}
    assert before[param] in (*kinds.values(), digest_path(root / "base"))
    for file in (root / "manners.py", root / "lines.jsonl", root / "base" / "config.json"):
        file.write_text(file.read_text() + "\n")
    assert digests(root, EVERY_PARAM[param])[param] != before[param]


def test_the_digest_of_an_adapter_covers_the_model_that_it_names(root: Path) -> None:
    config = root / "sft" / "adapter_config.json"
    config.parent.mkdir()

    def digest(content: str) -> str:
        config.write_text(content)
        return digests(root, ["policy.base=sft"])["policy.base"]

    on_base, elsewhere = (
        json.dumps({"peft_type": "LORA", "base_model_name_or_path": name}) for name in ("../base", "a/b")
    )
    first = digest(on_base)
    assert first == digest(on_base) != digest_path(root / "sft")
    assert digest(elsewhere) == digest_path(root / "sft")
    (root / "base" / "config.json").write_text("{ }\n")
    assert digest(on_base) not in (first, digest(elsewhere))


def test_the_digest_of_a_gguf_file_is_its_own(root: Path) -> None:
    (root / "tiny.gguf").write_bytes(b"GGUF")
    assert digests(root, ["policy.base=tiny.gguf"]) == {"policy.base": digest_path(root / "tiny.gguf")}


def test_models_of_the_hub_have_none(root: Path) -> None:
    assert digests(root, ["policy.base=someone/model"]) == {}


@pytest.mark.parametrize(("assignments", "message"), [
    (["policy.base=champion/policy"], r"policy\.base: no folder champion/policy, nothing was promoted yet"),
    (["policy.base=./bass"], r"policy\.base: no folder \./bass; name a folder, a Hugging Face id, or scratch"),
    (["policy.base=tiny.gguf"], r"policy\.base: no file tiny\.gguf; name a GGUF file"),
    (["policy.base=no_model/x.gguf"], r"policy\.base: no file no_model/x\.gguf, and no package no_model is installed"),
    (["bootstrap.demonstrations=none"], r"bootstrap\.demonstrations: no file none; name JSON lines of questions"),
    (["policy.prompt.file=none"], r"policy\.prompt\.file: no file none; name JSON lines of worked examples, or null"),
    (['rewards.own=[{name: a, term: "maners:polite", weight: 1}]'],
     r"rewards\.own: no module 'maners' .*; put maners\.py there, or correct"),
    (["update.loss=manners:keep"], r"update\.loss: .*manners\.py:3: keep\(measured\) is called as "
     r"keep\(logprobs, ratio, advantages, objective\); give it these arguments"),
    (["update.advantages=manners:advantage"], r"update\.advantages: .* no 'advantage' .*; did you mean 'advantages'"),
    (["influence.selection=manners:polite"], r"influence\.selection: .*polite\(problem, text, results\) is called as "),
    (["environment=manners:Sam"], r"environment: .*manners\.py defines no 'Sam' .*; did you mean 'Same'\?"),
    (["problems.source=jsonl", "problems.evaluator=manners:Some"], r"problems\.evaluator: .*did you mean 'Same'"),
])  # fmt: skip
def test_what_is_missing_is_named_in_one_line(root: Path, assignments: list[str], message: str) -> None:
    with pytest.raises(GraftError, match=f"^{message}") as error:
        digests(root, assignments)
    assert "\n" not in str(error.value)
