"""Law: an adapter as `policy.base` is the model that peft makes of it and its base, or an error in one line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tasks.bootstrap.start import attach_lora, load_start
from tasks.errors import GraftError
from tasks.model.policy import load_policy, save_policy
from tasks.params.sections import PolicyParams
from tests.support.models import logits, save_base
from tests.support.policies import MakePolicy
from tests.support.stage_params import SHIPPED


def params(base: Path | str, **more: Any) -> PolicyParams:
    return SHIPPED.policy.model_copy(update={"base": str(base), "lora": SHIPPED.policy.lora, **more})


def save_adapter(base: Path, folder: Path, names: str | None = None, **options: Any) -> Any:
    """A trained adapter of the model in `base`, as peft saves it; returns what plain peft loads."""
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    options = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"} | options
    rows = options.pop("rows", None)
    model = AutoModelForCausalLM.from_pretrained(base)
    if rows:
        model.resize_token_embeddings(rows)
    adapted = get_peft_model(model, LoraConfig(**options))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))))
    adapted.save_pretrained(folder, save_embedding_layers=bool(rows))
    change(folder, base_model_name_or_path=names or str(base))
    plain = AutoModelForCausalLM.from_pretrained(base)
    if rows:
        plain.resize_token_embeddings(rows)
    return PeftModel.from_pretrained(plain, str(folder)).eval()


def change(folder: Path, **values: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.fixture
def base(tmp_path: Path, make_policy: MakePolicy) -> Path:
    return save_base(make_policy, tmp_path / "base", "llama")


FORMS: dict[str, dict[str, Any]] = {
    "LoRA": {},
    "DoRA": {"use_dora": True},
    "rank-stabilised, with a whole module": {"use_rslora": True, "modules_to_save": ["lm_head"]},
    "pattern of modules": {"target_modules": r".*\.layers\.[01]\.mlp\.(up|down)_proj"},
    "tokens added before training": {"rows": 310, "modules_to_save": ["embed_tokens", "lm_head"]},
}


@pytest.mark.parametrize("form", FORMS)
def test_it_is_what_peft_loads_and_is_left_below_a_new_adapter(form: str, base: Path, tmp_path: Path) -> None:
    expected = save_adapter(base, tmp_path / "sft", **FORMS[form])
    policy, parent = load_start(params(tmp_path / "sft"))
    assert float((logits(policy.model) - logits(expected)).abs().max()) < 1e-4
    assert parent is None
    policy = attach_lora(policy, params(tmp_path / "sft"), seed=0)
    lineage = save_policy(policy, tmp_path / "policy", None, 0)
    assert (lineage.base, lineage.holds) == (str(tmp_path / "sft"), ["weights", "adapter"])
    shutil.rmtree(base)
    shutil.rmtree(tmp_path / "sft")
    back = load_policy(tmp_path / "policy")  # its folder is complete
    assert float((logits(back.model) - logits(expected)).abs().max()) < 1e-4


def test_a_model_folder_with_an_adapter_is_both(base: Path, tmp_path: Path) -> None:
    expected = save_adapter(base, tmp_path / "sft", names="someone/model")
    shutil.copytree(tmp_path / "sft", base, dirs_exist_ok=True)
    policy, _ = load_start(params(base))
    assert policy.own_weights
    assert float((logits(policy.model) - logits(expected)).abs().max()) < 1e-4


def test_a_tokenizer_of_its_own_comes_before_its_models(base: Path, tmp_path: Path, make_policy: MakePolicy) -> None:
    save_adapter(base, tmp_path / "sft", names="../base")
    assert load_start(params(tmp_path / "sft"))[0].tokenizer.chat_template is None
    tokenizer = make_policy().tokenizer
    tokenizer.chat_template = "{{ messages[0].content }}"
    tokenizer.save_pretrained(tmp_path / "sft")
    assert load_start(params(tmp_path / "sft"))[0].tokenizer.chat_template == "{{ messages[0].content }}"


def misname(folder: Path) -> None:
    weights = load_file(folder / "adapter_model.safetensors")
    renamed = {f"module.{name}": weight for name, weight in weights.items()}
    save_file(renamed, folder / "adapter_model.safetensors")


def add_weight(folder: Path) -> None:
    weights = load_file(folder / "adapter_model.safetensors")
    name = sorted(weights)[0]
    save_file(
        weights | {name.replace("layers.0", "layers.7"): weights[name].clone()}, folder / "adapter_model.safetensors"
    )


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no weights": (lambda f: (f / "adapter_model.safetensors").unlink(), "but no adapter_model.safetensors; add that"),
    "misnamed weights": (misname, "is no adapter of .*missing adapter keys"),
    "weights of another layer": (add_weight, "which the model has not"),
    "cut weights": (lambda f: (f / "adapter_model.safetensors").write_bytes(b"x" * 50), "is no adapter of"),
    "another rank": (lambda f: change(f, r=8), "is no adapter of .*size mismatch"),
    "no base": (lambda f: change(f, base_model_name_or_path=None), "names no model; add the one"),
    "a base that is gone": (lambda f: change(f, base_model_name_or_path="../gone"), "no folder ../gone; correct it"),
    "prompt tuning": (lambda f: change(f, peft_type="PROMPT_TUNING"), "cannot be merged; name another"),
    "an unknown kind": (lambda f: change(f, peft_type="NOVEL"), "'NOVEL' cannot be merged"),
    "a classifier's": (lambda f: change(f, task_type="SEQ_CLS"), "name an adapter of a CAUSAL_LM"),
    "replicated layers": (lambda f: change(f, layer_replication=[[0, 2], [1, 2]]), "layer_replication is set"),
    "a revision": (lambda f: change(f, revision="v2"), "revision: 'v2' of its model is not supported"),
    "a bad pattern": (lambda f: change(f, target_modules="("), "is no adapter of"),
    "a pattern of nothing": (lambda f: change(f, target_modules="nothing"), "is no adapter of"),
    "values of a wrong type": (lambda f: change(f, peft_type=5), "peft_type"),
    "no JSON": (lambda f: (f / "adapter_config.json").write_text("{"), "adapter_config.json"),
}


def test_an_adapter_that_cannot_be_loaded_is_one_line(base: Path, tmp_path: Path) -> None:
    save_adapter(base, tmp_path / "sft")
    for fault, (breaks, message) in FAULTS.items():
        breaks(shutil.copytree(tmp_path / "sft", tmp_path / fault))
        for device in ("meta", None):
            with pytest.raises(GraftError, match=message) as caught:
                load_start(params(tmp_path / fault), device)
            assert "\n" not in str(caught.value)
            assert ";" in str(caught.value)


def test_a_quantized_base_has_no_adapter_merged_into_it(base: Path, tmp_path: Path) -> None:
    save_adapter(base, tmp_path / "sft")
    with pytest.raises(GraftError, match=r"^policy\.quantize: nf4, but .*sft is an adapter"):
        load_start(params(tmp_path / "sft", quantize="nf4"))
