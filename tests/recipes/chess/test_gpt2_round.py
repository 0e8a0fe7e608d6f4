"""A round of search and update on a base in the form of the published RookWorld models, made here and small.

GPT-2 with Conv1D layers, byte-level BPE as GPT-2's, one special token `<|endoftext|>`, no padding token and no chat
template. It has learnt a few completions of A, so that it ends them, and some right parts of them.
"""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from recipes.chess.environment import RookWorld
from tasks.artifacts import read_jsonl, write_jsonl
from tasks.bootstrap.supervised import TrainingExample, train_supervised
from tasks.bootstrap.task import run as bootstrap
from tasks.collect.task import run as collect
from tasks.layout import Layout
from tasks.model.policy import load_policy
from tasks.problems.task import run as problems
from tasks.records.problems import Problem
from tasks.records.search import Workflow
from tasks.reward.task import run as reward
from tasks.search.task import run as search
from tasks.select.task import run as select
from tasks.trajectories import Trajectory
from tasks.update.task import run as update
from tests.recipes.chess.conftest import writer
from tests.support.stage_params import SHIPPED, stage_params

pytestmark = pytest.mark.slow

WEIGHTS = {"best": 0.5, "candidates": 0.3, "evaluations": 0.2, "format": 0.1, "content": 0.9}
OWN: dict[str, Any] = {"tasks": ["P", "A"], "notation": "list", "temperature": {"P": 0.7}}
END = "<|endoftext|>"


def save_gpt2(folder: Path, pairs: list[tuple[str, str]]) -> None:
    """A GPT-2 that has learnt these questions and completions, as transformers saves one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator([question + text for question, text in pairs], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=END, eos_token=END, unk_token=END)
    end = tokenizer.eos_token_id
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), bos_token_id=end, eos_token_id=end, **sizes))
    examples = [TrainingExample(tokenizer(q)["input_ids"], [*tokenizer(text)["input_ids"], end]) for q, text in pairs]
    train_supervised(model, examples, 12, 0.01, 16, end, seed=0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def params(stage: str, base: Path) -> Any:
    prompt = SHIPPED.policy.prompt.model_copy(update={"style": "raw", "examples": 0})
    lora = {"rank": 4, "alpha": 8.0, "targets": ["c_attn", "c_proj", "c_fc"]}
    return stage_params(
        stage,
        environment={"name": "recipes.chess:RookWorld", "weights": WEIGHTS, **OWN},
        problems={"source": "environment", "train": 8, "validation": 6, "test": 2, "dev": 2, "siblings": 0},
        policy={"base": str(base), "prompt": prompt, "max_new_tokens": 48}
        | {"lora": type(SHIPPED.policy.lora).model_validate(lora)},
        search={"top_p": 0.9, "top_k": 5},
        rewards={"correctness": 0.0, "runs": 0.1},
        update={"group_size": 6, "prompts_per_step": 8, "epochs": 1, "negative_weight": 1.0, "beta": 0.05},
        influence={"selection": "positive", "completions": 6},
    )


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """After a round on it."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("gpt2")
    base = folder / "base"
    save_gpt2(base, [*writer(tasks=["A"], notation="list", demonstrations=64).demonstrations([], 0)])
    layout = Layout(folder)
    write_jsonl(layout.coldstart / "index.jsonl", [])
    for stage, run in {"problems": problems, "bootstrap": bootstrap}.items():
        run(layout, params(stage, base), None)
    rounds = {"search": search, "collect": collect, "reward": reward, "select": select, "update": update}
    for stage, run in rounds.items():
        run(layout, params(stage, base), 1)
    return layout


def test_it_keeps_its_tokenizer_and_ends_with_its_end_token(layout: Layout) -> None:
    policy = load_policy(layout.policy(1))
    assert (policy.tokenizer.chat_template, policy.tokenizer.eos_token) == (None, END)
    assert policy.prompt_format is not None
    assert (policy.prompt_format.style, policy.prompt_format.before, policy.prompt_format.after) == ("raw", "", "")
    written = [c for w in read_jsonl(layout.workflows(1) / "index.jsonl", Workflow) for c in w.completions]
    ends = [c.tokens.count(policy.tokenizer.eos_token_id) for c in written]
    assert all(c.tokens[-1] == policy.tokenizer.eos_token_id or len(c.tokens) == 48 for c in written)
    assert max(ends) == 1
    assert sum(ends) > len(ends) / 2
    assert all(END not in w.code for w in read_jsonl(layout.workflows(1) / "index.jsonl", Workflow))


def test_its_layers_have_an_adapter_that_has_moved(layout: Layout) -> None:
    before, after = (dict(load_policy(layout.policy(n)).model.named_parameters()) for n in (0, 1))
    moved = {name for name, weight in after.items() if not torch.equal(weight, before[name])}
    modules = {name.split(".lora_")[0].removeprefix("base_model.model.") for name in moved}
    assert modules == {
        f"transformer.h.{layer}.{module}"
        for layer in (0, 1)
        for module in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    assert all(".lora_" in name for name in moved)


def test_each_task_is_sampled_at_its_temperature_and_the_first_ratio_is_one(layout: Layout) -> None:
    trajectories = read_jsonl(layout.trajectories(1), Trajectory)
    assert {(t.problem.template or "")[0]: t.problem.temperature for t in trajectories} == {"P": 0.7, "A": None}
    pairs = [pair for t in trajectories for m in t.members for pair in zip(m.tokens, m.kept, strict=True)]
    assert all(token in kept and len(kept) <= 5 for token, kept in pairs)
    numbers = json.loads(layout.metrics("update", 1).read_text())
    assert numbers["samples"] > 6
    assert numbers["first_ratio"] == pytest.approx(1, abs=1e-5)
    (first,) = list(csv.DictReader(layout.steps(1).read_text().splitlines()))[:1]
    assert float(first["kl"]) == pytest.approx(0, abs=1e-6)
    selected = json.loads(layout.metrics("select", 1).read_text())
    assert selected["certificate_signs"] == 1
    assert selected["certificate_slope"] == pytest.approx(-1, abs=0.05)


def test_questions_are_asked_as_they_are(layout: Layout) -> None:
    asked = {p.question for p in read_jsonl(layout.problems("train"), Problem)}
    assert {t.prompt for t in read_jsonl(layout.trajectories(1), Trajectory) if t.split == "train"} == asked
    assert all(RookWorld().prompt(question, "") == question for question in asked)
