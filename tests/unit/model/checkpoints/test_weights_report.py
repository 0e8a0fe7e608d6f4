"""Law: the weights of a model are those of its files, all of them and finite, or loading it is an error in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tasks.bootstrap.start import load_start
from tasks.errors import GraftError
from tasks.model.checkpoints.base_model import load_model
from tests.support.models import same_logits, save_base
from tests.support.policies import MakePolicy
from tests.support.stage_params import SHIPPED

Weights = dict[str, torch.Tensor]
LAYER = "model.layers.1."


def without(part: str) -> Callable[[Weights], Weights]:
    return lambda weights: {name: weight for name, weight in weights.items() if part not in name}


def prefixed(prefix: str) -> Callable[[Weights], Weights]:
    return lambda weights: {f"{prefix}{name}": weight for name, weight in weights.items()}


def plus(name: str, *shape: int) -> Callable[[Weights], Weights]:
    return lambda weights: weights | {name: torch.ones(shape)}


FAULTS: dict[str, tuple[Callable[[Weights], Weights], str]] = {
    "the prefix of a wrapper": (prefixed("module."), "lack .*, and have module.* of other names"),
    "the prefix of a compiled model": (prefixed("_orig_mod."), "lack .*, and have _orig_mod.* of other names"),
    "the prefix of peft": (prefixed("base_model.model."), "lack .*, and have base_model.* of other names"),
    "a missing layer": (without(LAYER), r"lack model\.layers\.1\.input_layernorm\.weight"),
    "a missing matrix": (without("layers.0.mlp.up_proj"), r"lack model\.layers\.0\.mlp\.up_proj\.weight"),
    "missing embeddings": (without("embed_tokens"), r"lack .*model\.embed_tokens\.weight"),
    "another size": (plus("model.norm.weight", 8), r"have other sizes of model\.norm\.weight than config\.json"),
    "a bias that the config leaves out": (plus("model.layers.0.mlp.up_proj.bias", 48), "have .*bias, which its config"),
    "scales of 8 bits": (plus("model.layers.0.mlp.up_proj.weight_scale", 1), "have .*_scale, which its config"),
}


@pytest.fixture
def base(tmp_path: Path, make_policy: MakePolicy) -> Path:
    return save_base(make_policy, tmp_path / "base")  # its head is tied to its embeddings, and not in the file


def rewrite(base: Path, change: Callable[[Weights], Weights]) -> None:
    file = base / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


@pytest.mark.parametrize("fault", FAULTS)
def test_weights_that_are_not_the_models_are_one_line(fault: str, base: Path) -> None:
    change, message = FAULTS[fault]
    rewrite(base, change)
    for device in ("meta", None):
        with pytest.raises(GraftError, match=message) as caught:
            load_model(str(base), device=device)
        assert str(base) in str(caught.value)
        assert "\n" not in str(caught.value)


BENIGN = {
    "nothing": lambda weights: weights,
    "frequencies of the positions": plus("model.layers.0.self_attn.rotary_emb.inv_freq", 4),
    "a copy of the tied head": lambda weights: weights | {"lm_head.weight": weights["model.embed_tokens.weight"] + 0},
    "a value head": plus("v_head.summary.weight", 1, 32),
    "a vision tower": plus("visual.blocks.0.attn.qkv.weight", 4, 4),
}


@pytest.mark.parametrize("kind", BENIGN)
def test_weights_that_files_are_known_to_have_besides_make_no_difference(kind: str, base: Path) -> None:
    plain = load_model(str(base))
    rewrite(base, BENIGN[kind])
    load_model(str(base), device="meta")
    assert same_logits(load_model(str(base)), plain)


def test_a_head_of_its_own_may_be_missing_only_where_it_is_tied(base: Path, make_policy: MakePolicy) -> None:
    save_base(make_policy, base, "llama")
    rewrite(base, without("lm_head"))
    with pytest.raises(GraftError, match=r"lack lm_head\.weight"):
        load_model(str(base))


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_numbers_that_are_not_finite_are_named_before_anything_is_trained(value: float, base: Path) -> None:
    def spoil(weights: Weights) -> Weights:
        weights["model.layers.1.mlp.up_proj.weight"][3, 5] = value
        return weights

    rewrite(base, spoil)
    params = SHIPPED.policy.model_copy(update={"base": str(base)})
    with pytest.raises(GraftError, match=r"its weights model\.layers\.1\.mlp\.up_proj\.weight hold numbers that are"):
        load_start(params)


INDEXES = {
    "a pickle": {"lm_head.weight": "pytorch_model.bin"},
    "a file outside": {"lm_head.weight": "../other/model.safetensors"},
    "an absolute path": {"lm_head.weight": "/etc/model.safetensors"},
    "no name": {"lm_head.weight": None},
    "nothing": {},
    "a list": [],
}


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_names_files_of_its_own_folder(kind: str, base: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (base / "model.safetensors").rename(tmp_path / "other" / "model.safetensors")
    (base / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": INDEXES[kind]}))
    with pytest.raises(
        GraftError, match=r"model\.safetensors\.index\.json (names .*no safetensors file|has no weight_)"
    ):
        load_model(str(base))


def test_a_model_in_several_files_is_loaded(base: Path) -> None:
    plain = load_model(str(base))
    (base / "model.safetensors").unlink()
    plain.save_pretrained(base, max_shard_size="20KB")
    assert len(list(base.glob("model-*.safetensors"))) > 1
    assert same_logits(load_model(str(base)), plain)
