"""Plain libraries load an exported policy of any kind, with the policy's logits."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from flows.champion import export
from tasks.artifacts import digest_path, write_bytes, write_json, write_text
from tasks.bootstrap.start import attach_lora, load_start
from tasks.environments.tagged_answer import TaggedAnswer
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.checkpoints.export import ExportFormat, export_policy
from tasks.model.policy import Policy, load_policy, save_policy
from tasks.model.text import encode_prompt, problem_prompt
from tasks.params.sections import Lora
from tasks.records.policy import PromptFormat
from tasks.records.promotion import Promotion
from tests.support.models import logits, perturb, save_base
from tests.support.policies import MakePolicy
from tests.support.records import question_of
from tests.support.stage_params import LORA, policy_params

MERGED = 1e-5  # float32: the adapter is added to the weights instead of their outputs


def plain(folder: Path, form: ExportFormat, base: Path | None) -> Any:
    """As in the README.md of an export."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    if form == "merged":
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = AutoModelForCausalLM.from_pretrained(base or folder / "base", dtype=torch.float32)
    return PeftModel.from_pretrained(model, folder)


def make(kind: str, root: Path, make_policy: MakePolicy) -> tuple[Path, Path | None]:
    """A policy folder of a kind, and the base that it needs."""
    folder = root / "policy"
    if kind in ("scratch", "full"):
        save_policy(perturb(make_policy(full=kind == "full")), folder, None, 1)
        return folder, None
    base = save_base(make_policy, root / "hub", dtype="bfloat16" if kind == "bf16" else "float32")
    form = policy_params(base, LORA)
    save_policy(perturb(attach_lora(load_start(form)[0], form, 0)), folder, None, 1)
    if kind == "continued":
        form = policy_params(folder, LORA)
        save_policy(perturb(attach_lora(load_start(form)[0], form, 1)), root / "next", "p", 1)
        return root / "next", base
    return folder, base


def test_what_only_training_needs_is_left_out(tmp_path: Path, make_policy: MakePolicy) -> None:
    folder, _ = make("scratch", tmp_path, make_policy)
    left_out = {"value_head.safetensors"}
    save_policy(load_policy(folder), folder, None, 1, lambda new: write_bytes(new / "value_head.safetensors", b"head"))
    export_policy(folder, tmp_path / "merged", "merged", None)
    assert not left_out & {path.name for path in (tmp_path / "merged").iterdir()}


@pytest.mark.parametrize("form", ["merged", "adapter"])
@pytest.mark.parametrize("kind", ["scratch", "full", "hub", "continued", "bf16"])
def test_plain_libraries_give_the_same_logits(
    kind: str, form: ExportFormat, tmp_path: Path, make_policy: MakePolicy
) -> None:
    policy, base = make(kind, tmp_path, make_policy)
    out = tmp_path / "out"
    if (kind, form) == ("full", "adapter"):
        with pytest.raises(GraftError, match="has no adapter, all its weights were trained; export it with --merged"):
            export_policy(policy, out, form, None)
        return
    expected = logits(load_policy(policy).model)
    reported = export_policy(policy, out, form, "0.5")
    shutil.rmtree(policy)  # the export does not need it
    found = plain(out, form, base)
    difference = float((logits(found) - expected).abs().max())
    if form == "adapter" or kind == "full":
        assert reported == difference == 0
    elif kind == "bf16":  # its own type: the sum is rounded to 8 bits
        spread = float(expected.std())
        assert MERGED < difference < 0.05 * spread
        assert reported < 0.05 * spread
        assert "bfloat16" in (out / "config.json").read_text()
    else:
        assert max(reported, difference) < MERGED
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(out)
    assert tokenizer.decode(tokenizer("1 + 2")["input_ids"]) == "1 + 2"
    assert not list(out.rglob("lineage.json"))


@pytest.mark.parametrize("lora", [LORA, None], ids=["adapter", "full"])
def test_two_matrices_are_not_exported_as_tied(lora: Lora | None, tmp_path: Path, make_policy: MakePolicy) -> None:
    """transformers loads what the checkpoint has, whatever `tie_word_embeddings` says; others go by the flag."""
    from safetensors.torch import load_file, save_file

    base = save_base(make_policy, tmp_path / "hub")
    weights = load_file(base / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].flip(0)
    save_file(weights, base / "model.safetensors", {"format": "pt"})
    assert '"tie_word_embeddings": true' in (base / "config.json").read_text()
    form, folder = policy_params(base, lora), tmp_path / "policy"
    policy, _ = load_start(form)
    save_policy(attach_lora(policy, form, 0), folder, None, 0)
    assert not AutoConfig.from_pretrained(folder).tie_word_embeddings
    expected = logits(load_policy(folder).model)
    export_policy(folder, tmp_path / "out", "merged", None)
    config = AutoConfig.from_pretrained(tmp_path / "out")
    assert not config.tie_word_embeddings
    found: Any = AutoModelForCausalLM.from_config(config)  # as a library builds it that goes by the flag
    found.load_state_dict(load_file(tmp_path / "out" / "model.safetensors"))
    assert float((logits(found.eval()) - expected).abs().max()) < MERGED


def test_float32_keeps_what_bfloat16_rounds(tmp_path: Path, make_policy: MakePolicy) -> None:
    policy, _ = make("bf16", tmp_path, make_policy)
    expected = logits(load_policy(policy).model)
    assert export_policy(policy, tmp_path / "out", "merged", None, float32=True) < MERGED
    assert float((logits(plain(tmp_path / "out", "merged", None)) - expected).abs().max()) < MERGED


WEIGHTS = "policy/adapter/adapter_model.safetensors"
DAMAGED = r"policy: its weights are damaged"
CHANGED = r"hub, is changed since the policy was trained from it; restore"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: write_text(root / "out/mine.txt", "mine"), r"out: exists and is not empty; name a new folder"),
        (
            lambda root: (root / WEIGHTS).write_bytes((root / WEIGHTS).read_bytes()[:-1] + b"x"),
            DAMAGED + " or belong to another policy .*; name another policy",
        ),
        (lambda root: (root / WEIGHTS).unlink(), DAMAGED),
        (
            lambda root: (root / "policy/tokenizer.json").unlink(),
            r"tokenizer.json: is missing, by the digests",
        ),
        (lambda root: (root / "hub/config.json").write_text("{"), CHANGED),
        (lambda root: write_text(root / "hub/config.json", (root / "hub/config.json").read_text() + " "), CHANGED),
        (lambda root: shutil.rmtree(root / "hub"), r"hub, is gone; restore"),
    ],
    ids=["full", "damaged", "without weights", "without tokenizer", "half config", "other base", "no base"],
)
def test_a_damaged_policy_or_base_is_an_error_and_nothing_is_written(
    damage: Callable[[Path], object], message: str, tmp_path: Path, make_policy: MakePolicy
) -> None:
    policy, _ = make("hub", tmp_path, make_policy)
    damage(tmp_path)
    before = digest_path(tmp_path)
    with pytest.raises(GraftError, match=message) as error:
        export_policy(policy, tmp_path / "out", "merged", None)
    assert "\n" not in str(error.value)
    assert digest_path(tmp_path) == before


def test_the_card_has_origin_measurement_and_code(
    tmp_path: Path, policy: Policy, capsys: pytest.CaptureFixture[str]
) -> None:
    layout, forms = Layout(tmp_path), get_args(ExportFormat)
    version = save_policy(policy, layout.run_policy, "p", 6).version
    figures = {"pass_at_1": 0.575, "champion_pass_at_1": 0.495, "difference": 0.08, "low": 0.045, "high": 0.12}
    decision = Promotion(promoted=True, reason="better", version=version, champion_version=None, **figures)
    for form in forms:
        export(layout, layout.run_policy, tmp_path / form, form, False)
        assert "pass@1: not measured." in (tmp_path / form / "README.md").read_text()
    write_json(layout.promotion, decision)
    export(layout, layout.run_policy, tmp_path / "again", "merged", False)
    card = (tmp_path / "again" / "README.md").read_text()
    assert f"# Policy {version}" in card
    assert "pass@1: 0.575, greedy, on the test problems of its run." in card
    assert 'AutoModelForCausalLM.from_pretrained("again")' in card
    printed = f"again: {layout.run_policy} ({version}), merged; loaded again, no logit differs by"
    assert printed in capsys.readouterr().out
    assert "## Prompt" not in card  # a policy from scratch has no form
    with pytest.raises(GraftError, match="there is no champion yet"):
        export(layout, None, tmp_path / "none", "merged", False)


@pytest.mark.parametrize("question", ["2 + 2?", "2<|endoftext|>?"])
def test_the_code_of_the_card_asks_as_graft_does(question: str, tmp_path: Path, policy: Policy) -> None:
    form = PromptFormat(
        style="plain", examples=1, instructions=False, before="1 + 1?\n2\n\n", after="A: ", prefill="so ", stop=["\n"]
    )
    asking = replace(policy, prompt_format=form)
    save_policy(asking, tmp_path / "policy", None, 1)
    out = tmp_path / "out"
    export_policy(tmp_path / "policy", out, "merged", None)
    card = (out / "README.md").read_text()
    assert "Plain style with 1 worked examples" in card
    prompt_code = card.split("```python\n")[2].split("```")[0].replace('"out/', f'"{out}/')
    model = AutoModelForCausalLM.from_pretrained(out)
    names: dict[str, Any] = {"asked": f"{question}\n", "tokenizer": AutoTokenizer.from_pretrained(out), "model": model}
    exec(prompt_code, names)
    expected = encode_prompt(policy, problem_prompt(asking, TaggedAnswer(), question_of(question)))
    assert policy.tokenizer.eos_token_id not in expected
    assert names["outputs"][0, : len(expected)].tolist() == expected
    assert names["outputs"].shape[1] > len(expected)
