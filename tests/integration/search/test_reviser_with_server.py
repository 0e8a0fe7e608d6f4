"""Revisions by the policy itself, a random one: it writes noise."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.artifacts import digest_path, read_jsonl, write_jsonl
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import Policy, attach_adapter, encode_completion, load_policy, save_policy
from tasks.params.params import Params
from tasks.records import Problem, Sibling, TreeNode, Workflow
from tasks.search.task import run
from tests.support.stage_params import stage_params

SAMPLES, REVISIONS = 2, 5
# `transformers serve` looks for the assistant's turn of a Qwen2; where there is none its reply begins with the prompt
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PROBLEM = Problem(
    problem_id="pens",
    question="31 boxes of 41 pens?",
    answer=1271,
    source="test",
    siblings=[Sibling(question="6 boxes of 212 pens?", answer=1272)],
)


def saved_model(folder: Path, context: int) -> None:
    """A random model of two layers with a tokenizer and a chat template: a plain folder, as a hub has them."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer: Any = train_tokenizer(["def solve(problem): numbers(problem) the workflow and its operators"], 320)
    tokenizer.chat_template = TEMPLATE
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=len(tokenizer), intermediate_size=48, max_position_embeddings=context, **shape, **special
        )
        model = Qwen2ForCausalLM(config)
    model.generation_config.do_sample = True  # else the server leaves the temperature aside
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def workspace(root: Path, base: Path) -> Layout:
    """Round 2's policy is `base` with a fresh adapter; one train problem."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    layout = Layout(root)
    model = attach_adapter(AutoModelForCausalLM.from_pretrained(base), rank=2, alpha=2.0, seed=0)
    policy = Policy(model, AutoTokenizer.from_pretrained(base), "", str(base))
    save_policy(policy, layout.policy(1), parent=None, round=1)
    write_jsonl(layout.searches(1), [])
    write_jsonl(layout.problems("train"), [PROBLEM])
    return layout


def params(base: Path, **operators: Any) -> Params:
    return stage_params(
        "search",
        search={"samples": SAMPLES, "simulations": SAMPLES + REVISIONS, "revisions": REVISIONS},
        policy={"base": str(base), "max_new_tokens": 24},
        sandbox={"allow_weak": True},
        operators={"max_tokens": 16, "temperature": 1.0, **operators},
    )


def twice(layout: Layout, params: Params) -> dict[str, float]:
    """The stage's numbers, after it was run two times: the second time from memory, to the same bytes."""
    written = []
    for _ in range(2):
        run(layout, params, 2)
        written.append((digest_path(layout.workflows(2)), digest_path(layout.metrics("search", 2))))
    assert written[0] == written[1]
    ledger = [json.loads(line) for line in (layout.replies / "ledger.jsonl").read_text().splitlines()]
    assert [entry["asked"] for entry in ledger] == [REVISIONS] * 2
    assert [entry["remembered"] for entry in ledger] == [0, REVISIONS]
    numbers: dict[str, float] = json.loads(layout.metrics("search", 2).read_text())
    return numbers


def check_noise(layout: Layout, numbers: dict[str, float]) -> None:
    """All was taken in, and none of it is right."""
    assert (numbers["revisions"], numbers["revisions_skipped"], numbers["solved"]) == (REVISIONS, 0, 0)
    policy = load_policy(layout.policy(1))
    folder = layout.workflows(2)
    revised = [w for w in read_jsonl(folder / "index.jsonl", Workflow) if w.proposer == "revision"]
    assert revised
    for w in revised:
        tokens = encode_completion(policy, w.code)
        assert w.value == 0
        assert [c.tokens for c in w.completions] == ([tokens] if len(tokens) <= 24 else [])
    nodes = {n.node_id: n for n in read_jsonl(folder / "trees.jsonl", TreeNode)}
    assert nodes["0"].visits == SAMPLES + REVISIONS
    assert {w.parent_id for w in revised} <= set(nodes)


@pytest.mark.slow
def test_the_policy_revises_its_own_workflows(tmp_path: Path) -> None:
    base = tmp_path / "model"
    saved_model(base, context=8192)
    layout = workspace(tmp_path / "project", base)
    check_noise(layout, twice(layout, params(base, backend="policy")))


@pytest.mark.slow
def test_a_policy_too_small_for_the_prompts_is_told(tmp_path: Path) -> None:
    base = tmp_path / "model"
    saved_model(base, context=2600)
    layout = workspace(tmp_path / "project", base)
    with pytest.raises(
        GraftError, match=r"search\.revisions: no reply to any .*a prompt of \d+ tokens; the policy reads"
    ):
        run(layout, params(base, backend="policy", max_tokens=2400), 2)
