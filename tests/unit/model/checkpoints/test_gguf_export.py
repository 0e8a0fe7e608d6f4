"""A policy's GGUF file reads back as the policy, weights and tokens; what llama.cpp could not compute is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from flows.champion import export_file
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.checkpoints.export import load_for_export
from tasks.model.checkpoints.gguf import read_gguf
from tasks.model.checkpoints.gguf_export import TEXT, WeightType, export_gguf
from tasks.model.checkpoints.lora import attach_adapter
from tasks.model.checkpoints.version import verify_policy
from tasks.model.policy import Policy, save_policy
from tests.support.models import logits, perturb
from tests.support.policies import CORPUS, SHARED, VOCABULARY, WIDE, MakePolicy

pytest.importorskip("gguf")

CODE = "def solve(problem):\n    n = numbers(problem)\n    a = n[0] * n[1]\n    return a\n"
CHAT = "{% for m in messages %}<|endoftext|>{{ m['content'] }}\n{% endfor %}"


def make_model(kind: str) -> Any:
    """A random one of an architecture, two query heads to a key head; Llama's and Mistral's matrices are not tied."""
    import transformers as t

    shape: dict[str, Any] = {**SHARED, **WIDE, "num_key_value_heads": 2}
    if kind == "qwen3":
        return t.Qwen3ForCausalLM(t.Qwen3Config(**shape, head_dim=128, tie_word_embeddings=True))
    if kind == "mistral":
        return t.MistralForCausalLM(t.MistralConfig(**shape, sliding_window=64))
    if kind == "llama":
        return t.LlamaForCausalLM(t.LlamaConfig(**shape, rope_parameters={"rope_type": "default", "rope_theta": 5e5}))
    return t.Qwen2ForCausalLM(t.Qwen2Config(**shape, tie_word_embeddings=True))


def save(kind: str, folder: Path, change: Callable[[Policy], object] = lambda _: None) -> Any:
    """A policy with an adapter that has learnt something, and its merged model."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer([*CORPUS, CODE, f"{CODE}]\n]\n"], VOCABULARY)
    policy = Policy(make_model(kind).eval(), tokenizer, "", "scratch")
    policy.model.resize_token_embeddings(len(tokenizer) + 3)  # rows without a token
    policy.tokenizer.chat_template = CHAT
    change(policy)
    policy.model = attach_adapter(policy.model, rank=4, alpha=8.0, seed=0)
    save_policy(perturb(policy), folder, None, 1)
    return load_for_export(folder, verify_policy(folder)).merge_and_unload()


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "mistral"])
def test_model_and_tokenizer_read_back_as_they_were(kind: str, tmp_path: Path) -> None:
    merged, file = save(kind, tmp_path / "policy"), tmp_path / "out" / "policy.gguf"
    assert export_gguf(tmp_path / "policy", file, "f32") < 1e-5
    model, tokenizer = read_gguf("policy.gguf", file)
    assert float((logits(model) - logits(merged)).abs().max()) < 1e-5
    assert model.config.max_position_embeddings == (64 if kind == "mistral" else 256)
    expected = train_tokenizer([*CORPUS, CODE, f"{CODE}]\n]\n"], VOCABULARY)
    for text in (TEXT, CODE, "n[1] + n[2]]\n", "<|endoftext|>x<|pad|>"):
        assert tokenizer(text)["input_ids"] == expected(text)["input_ids"]
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert (tokenizer.eos_token, tokenizer.pad_token) == (expected.eos_token, expected.pad_token)
    assert tokenizer.chat_template == CHAT
    assert model.config.tie_word_embeddings == kind.startswith("qwen")
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("weights", ["f16", "q8_0"])
def test_each_weight_is_rounded_once(
    weights: WeightType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    merged, file = save("llama", tmp_path / "policy"), tmp_path / "policy.gguf"
    monkeypatch.chdir(tmp_path)
    export_file(Layout(tmp_path), "policy", Path(file.name), weights)
    assert f", {weights}; loaded again, no logit differs by more than" in capsys.readouterr().out
    model, _ = read_gguf("policy.gguf", file)
    for name, weight in merged.state_dict().items():
        found = model.state_dict()[name]
        if weight.ndim == 1:
            assert torch.equal(found, weight)
        elif weights == "f16" or weight.shape[-1] % 32:
            assert torch.equal(found, weight.half().float())
        else:
            blocks, rounded = weight.reshape(-1, 32), found.reshape(-1, 32)
            scale = blocks.abs().amax(1, keepdim=True) / 127  # itself rounded to 16 bits
            assert bool(((blocks - rounded).abs() <= 0.6 * scale).all())
            assert bool((blocks != rounded).any())


def scaled(policy: Policy) -> None:
    policy.model.config.rope_parameters |= {"rope_type": "linear", "factor": 2.0}


def split_by_words(policy: Policy) -> None:
    from tokenizers import pre_tokenizers

    policy.tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def narrowed(policy: Policy) -> None:
    policy.model.resize_token_embeddings(len(policy.tokenizer) - 1)


@pytest.mark.parametrize(
    ("kind", "change", "line"),
    [
        (
            "llama",
            scaled,
            r"^--gguf: rope_type linear is not supported, but llama, mistral, qwen2, qwen3; export it to",
        ),
        ("llama", split_by_words, r"^--gguf: llama\.cpp has no name for the pre-tokenizer of its tokenizer; export it"),
        ("llama", narrowed, r"^--gguf: llama\.cpp would read texts as other tokens than .*; export it to a folder$"),
    ],
)
def test_what_the_file_cannot_hold_is_one_line_and_nothing_is_written(
    kind: str, change: Callable[[Policy], object], line: str, tmp_path: Path
) -> None:
    save(kind, tmp_path / "policy", change)
    with pytest.raises(GraftError, match=line):
        export_gguf(tmp_path / "policy", tmp_path / "policy.gguf", "f16")
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_other_architectures_and_files_that_are_there_are_refused(tmp_path: Path, make_policy: MakePolicy) -> None:
    save_policy(make_policy("gpt2"), tmp_path / "policy", None, 1)
    file = tmp_path / "policy.gguf"
    with pytest.raises(
        GraftError, match=r"^--gguf: gpt2 is not supported, but llama, mistral, qwen2, qwen3; export it"
    ):
        export_gguf(tmp_path / "policy", file, "f16")
    file.write_text("mine")
    with pytest.raises(GraftError, match=r"policy\.gguf: exists; name a new file$"):
        export_gguf(tmp_path / "policy", file, "f16")
    assert file.read_text() == "mine"
