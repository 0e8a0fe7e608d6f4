"""A policy folder loads with plain transformers and peft, and records its lineage."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tasks.artifacts import digest_path, read_json, write_json
from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import load_model, load_tokenizer
from tasks.model.checkpoints.lora import attach_adapter
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.text import (
    chat_prompt,
    completion_text,
    count_before_stop,
    decode,
    encode_completion,
    encode_prompt,
    is_truncated,
)
from tasks.records.policy import Lineage, PromptFormat
from tests.support.models import logits, perturb, same_logits, save_base
from tests.support.policies import MakePolicy

REPOSITORY = Path(__file__).parents[3]
WEIGHTS, ADAPTER = "model.safetensors", "adapter/adapter_model.safetensors"


def policy_on(base: str) -> Policy:
    """A policy of another base than scratch, its adapter changed."""
    model = attach_adapter(load_model(base), rank=4, alpha=8.0, seed=0)
    return perturb(Policy(model, load_tokenizer(base), "", base))


@pytest.fixture
def folder(tmp_path: Path, policy: Policy) -> Path:
    """A saved policy."""
    save_policy(policy, tmp_path / "policy", parent=None, round=0)
    return tmp_path / "policy"


def test_a_loaded_policy_is_ready_to_sample_and_to_train_and_saving_changes_none(
    tmp_path: Path, policy: Policy, make_policy: MakePolicy
) -> None:
    lineage = save_policy(policy, tmp_path / "policy", parent="0123456789abcdef", round=3)
    assert (lineage.parent, lineage.round, lineage.base) == ("0123456789abcdef", 3, "scratch")
    assert read_json(tmp_path / "policy" / "lineage.json", Lineage) == lineage
    back = load_policy(tmp_path / "policy")
    assert (back.version, back.base) == (lineage.version, "scratch")
    assert not back.model.training
    assert all(p.requires_grad == ("lora_" in name) for name, p in back.model.named_parameters())
    unsaved = make_policy()
    assert same_logits(policy.model, unsaved.model)
    assert same_logits(back.model, unsaved.model)
    assert policy.model.state_dict().keys() == unsaved.model.state_dict().keys()


SAVE = """
from pathlib import Path
from tasks.model.checkpoints.lora import attach_adapter
from tasks.model.policy import Policy, save_policy
from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.tokenizer import train_tokenizer
tokenizer = train_tokenizer(["def solve(problem): 1 + 2"] * 3, 300)
model = attach_adapter(build_scratch_model(tokenizer, hidden=32, layers=2, seed=0), rank=2, alpha=2.0, seed=0)
save_policy(Policy(model, tokenizer, "", "scratch"), Path("policy"), parent=None, round=0)
"""


@pytest.mark.nightly
def test_a_process_with_another_hash_seed_makes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", SAVE],
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(REPOSITORY)},
        cwd=tmp_path / "other",
        stderr=subprocess.DEVNULL,
    )
    monkeypatch.chdir(tmp_path)
    exec(SAVE, {})
    assert process.wait() == 0
    assert digest_path(tmp_path / "policy") == digest_path(tmp_path / "other" / "policy")


def test_the_version_changes_with_any_weight_and_with_nothing_else(tmp_path: Path, make_policy: MakePolicy) -> None:
    versions = []
    for part in ("", "lora_A", "embed_tokens"):
        policy = make_policy()
        if part:
            with torch.no_grad():
                next(p for name, p in policy.model.named_parameters() if part in name).view(-1)[0] += 0.01
        versions.append(save_policy(policy, tmp_path / "policy", parent=None, round=0).version)
    assert len(set(versions)) == 3
    assert save_policy(make_policy(), tmp_path / "policy", parent="other", round=7).version == versions[0]


def test_a_fresh_adapter_computes_what_the_base_computes_and_comes_from_its_seed(make_policy: MakePolicy) -> None:
    fresh = make_policy(fresh=True)
    with fresh.model.disable_adapter():
        bare = logits(fresh.model)
    assert torch.equal(logits(fresh.model), bare)
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    adapters = []
    for seed in (3, 3, 4):
        model = attach_adapter(make_policy().model.unload(), rank=2, alpha=2.0, seed=seed)
        adapters.append(next(p.clone() for name, p in model.named_parameters() if "lora_A" in name))
    assert torch.equal(adapters[0], adapters[1])
    assert not torch.equal(adapters[0], adapters[2])
    assert torch.equal(torch.random.get_rng_state(), state)  # the global random state is unchanged


def test_another_base_is_not_copied_or_changed(tmp_path: Path, make_policy: MakePolicy) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = str(save_base(make_policy, tmp_path / "base", "gpt2"))
    before = digest_path(Path(base))
    policy, folder = policy_on(base), tmp_path / "policy"
    lineage = save_policy(policy, folder, parent=None, round=0)
    assert lineage.base == base
    assert [p.relative_to(folder).as_posix() for p in folder.rglob("*.safetensors")] == [ADAPTER]
    assert digest_path(Path(base)) == before
    assert same_logits(load_policy(folder).model, policy.model)
    plain = AutoModelForCausalLM.from_pretrained(base)
    assert not same_logits(plain, policy.model)
    assert same_logits(PeftModel.from_pretrained(plain, folder / "adapter"), policy.model)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def widen(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    write_json(folder / "config.json", config | {"hidden_size": 64})


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no lineage": lambda folder: (folder / "lineage.json").unlink(),
    "no config": lambda folder: (folder / "config.json").unlink(),
    "config of nothing": lambda folder: (folder / "config.json").write_text("{}"),
    "config of another size": widen,
    "no weights": lambda folder: (folder / WEIGHTS).unlink(),
    "cut weights": lambda folder: cut(folder / WEIGHTS),
    "no adapter": lambda folder: shutil.rmtree(folder / "adapter"),
    "no adapter weights": lambda folder: (folder / ADAPTER).unlink(),
    "cut adapter weights": lambda folder: cut(folder / ADAPTER),
    "adapter config that is no JSON": lambda folder: (folder / "adapter/adapter_config.json").write_text("{"),
    "no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "tokenizer that is no JSON": lambda folder: (folder / "tokenizer.json").write_text("{"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_policy_folder_is_one_line_that_names_it(damage: str, folder: Path) -> None:
    DAMAGES[damage](folder)
    with pytest.raises(GraftError) as caught:
        load_policy(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)  # the remedy


def test_a_base_that_is_no_model_is_one_line_and_names_its_policy(tmp_path: Path, make_policy: MakePolicy) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("nowhere", "empty"):
        with pytest.raises(GraftError, match=rf"^policy\.base: '.*{name}' is no causal language model .*; give .*\Z"):
            load_model(str(tmp_path / name))
    base = str(save_base(make_policy, tmp_path / "base"))
    save_policy(policy_on(base), tmp_path / "policy", parent=None, round=0)
    shutil.rmtree(base)
    with pytest.raises(GraftError, match=r"policy: its base '.*base' is no causal language model .*; restore it.*\Z"):
        load_policy(tmp_path / "policy")


def test_a_base_without_tokenizer_is_one_line(tmp_path: Path, make_policy: MakePolicy) -> None:
    make_policy().model.unload().save_pretrained(tmp_path)
    with pytest.raises(GraftError, match=r"^policy\.base: '.*' has no tokenizer .*; add tokenizer\.json to it\Z"):
        load_tokenizer(str(tmp_path))


def test_a_tokenizer_needs_an_end_and_pads_with_it_by_default(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "1": 1, "[END]": 2}, unk_token="[UNK]"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path / "endless")
    with pytest.raises(GraftError, match=r"^policy\.base: the tokenizer of .* has no end-of-text token; set eos_token"):
        load_tokenizer(str(tmp_path / "endless"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="[END]").save_pretrained(tmp_path / "ended")
    tokenizer = load_tokenizer(str(tmp_path / "ended"))
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 2


def test_a_chat_template_makes_the_prompt_of_a_users_message(policy: Policy) -> None:
    assert chat_prompt(policy, "7?\n") == "7?\n"
    message, end = "<{{ m.role }}>{{ m.content }}", "{% if add_generation_prompt %}<me>{% endif %}"
    policy.tokenizer.chat_template = f"{{% for m in messages %}}{message}{{% endfor %}}{end}"
    assert chat_prompt(policy, "7?\n") == "<user>7?\n<me>"
    assert decode(policy, encode_prompt(policy, "7?\n")) == "7?\n"


def form_with(prefill: str, stop: list[str]) -> PromptFormat:
    return PromptFormat(style="plain", examples=0, instructions=True, before="", after="", prefill=prefill, stop=stop)


def test_all_end_tokens_count(policy: Policy) -> None:
    """Those of the generation config end a completion too: chat models end a turn with another token than a text."""
    own = policy.tokenizer.eos_token_id
    assert policy.end_tokens == [own]
    policy.model.generation_config.eos_token_id = [own, 7]
    assert policy.end_tokens == [own, 7]
    tokens = policy.tokenizer("1 + 2", add_special_tokens=False)["input_ids"]
    assert [is_truncated(policy, [*tokens, *end]) for end in ([], [own], [7])] == [True, False, False]
    assert decode(policy, [*tokens, 7]) == decode(policy, [*tokens, own]) == "1 + 2"


def test_a_stop_string_ends_a_completion_and_is_not_learnt(policy: Policy) -> None:
    policy.prompt_format = form_with("def ", ["#", "+ 2"])
    tokens = policy.tokenizer("1 + 2", add_special_tokens=False)["input_ids"]
    assert not is_truncated(policy, tokens)
    assert completion_text(policy, tokens) == "def 1 "
    learnt = count_before_stop(policy, tokens)
    assert decode(policy, tokens[:learnt]).startswith("1 ")
    assert len(decode(policy, tokens[: learnt - 1])) < len("1 ")
    assert count_before_stop(policy, [*tokens[:1], policy.tokenizer.eos_token_id]) == 2  # the end token is learnt


@pytest.mark.parametrize("text", ["def solve(problem): 1 + 2", "solve(problem): 1"])
def test_a_prefilled_beginning_is_no_part_of_the_tokens(text: str, policy: Policy) -> None:
    policy.prompt_format = form_with("``` def solve(", [])
    tokens = encode_completion(policy, text)
    assert completion_text(policy, tokens) == f"``` def {text.removeprefix('def ')}"


def test_a_quantized_base_without_its_package_is_refused(
    tmp_path: Path, make_policy: MakePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.model.checkpoints.lora.find_spec", lambda _: None)
    base = save_base(make_policy, tmp_path / "base")
    with pytest.raises(GraftError, match=r"^policy\.quantize: nf4 needs the package bitsandbytes: pip install .*\Z"):
        load_model(str(base), "nf4")
