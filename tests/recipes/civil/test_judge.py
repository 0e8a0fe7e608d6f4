"""A classifier as a term: it is what transformers computes, and only a trained one in safetensors is loaded."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from recipes.civil.judge import Judge
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.errors import GraftError
from tasks.params.sections import UserTerm
from tasks.records.problems import Problem
from tasks.reward.user_terms import user_term_column
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import with_fields
from tests.support.stage_params import REPOSITORY

PROBLEM = Problem(problem_id="p", question="2 and 3?", answer=5, source="test")
TEXTS = ["return 5", "x", "please please", "return 5<|endoftext|>"]


def make(folder: Path, labels: int) -> Any:
    """A random model of one layer with a tokenizer."""
    torch.manual_seed(labels)
    tokenizer = train_tokenizer(["def solve(problem): 1 + 2 please"], 300)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0, "initializer_range": 0.2}
    config = transformers.Qwen2Config(**sizes, **heads, num_labels=labels)
    judge = transformers.Qwen2ForSequenceClassification(config).eval()
    judge.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return judge


@pytest.mark.parametrize(("labels", "alone"), [(1, True), (3, True), (3, False)])
def test_it_is_what_transformers_computes(tmp_path: Path, labels: int, alone: bool) -> None:
    """A control token within a text is text: else a policy could end its text where it likes."""
    model, tokenizer = make(tmp_path, labels), transformers.AutoTokenizer.from_pretrained(tmp_path)
    expected = []
    for text in TEXTS:
        whole = text if alone else f"{PROBLEM.question}{text}"  # this tokenizer puts nothing between the two
        ids = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(whole, split_special_tokens=True))
        logits = model(input_ids=torch.tensor([ids])).logits[0].detach()
        expected.append(float(logits.sigmoid()[0] if labels == 1 else logits.softmax(0)[-1]))
    judge = Judge(str(tmp_path), f"LABEL_{labels - 1}", alone=alone)
    assert [judge(PROBLEM, text, []) for text in TEXTS] == pytest.approx(expected, abs=1e-6)
    assert len({round(value, 4) for value in expected}) == len(TEXTS)
    cap = sorted(expected)[1]
    capped = Judge(str(tmp_path), f"LABEL_{labels - 1}", cap, alone)
    assert max(capped(PROBLEM, text, []) for text in TEXTS) == cap


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no head", r"no trained classifier: its weights lack score\.weight, or"),
        ("other labels", r"no trained classifier: its weights lack score\.weight, or have it in another size than con"),
        ("no label", r"no label 'kind'; name one of LABEL_0, LABEL_1$"),
        ("pickle", "safetensors"),
    ],
)
def test_what_is_no_trained_classifier_is_refused(tmp_path: Path, kind: str, message: str) -> None:
    make(tmp_path, 2)
    if kind == "no head":
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path).save_pretrained(tmp_path)
    if kind == "other labels":
        transformers.Qwen2Config.from_pretrained(tmp_path, num_labels=3).save_pretrained(tmp_path)
    if kind == "pickle":
        (tmp_path / "model.safetensors").unlink()
        torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises((GraftError, OSError), match=message):
        Judge(str(tmp_path), "kind" if kind == "no label" else "LABEL_1")


def test_the_module_in_the_docs_is_a_term_that_loads_the_model_once(
    tmp_path: Path, make_trajectory: Callable[..., RewardedTrajectory]
) -> None:
    page = (REPOSITORY / "docs" / "rewards.md").read_text()
    (module,) = re.findall(r"```py\n(from recipes\.civil\.judge .*?)```", page, re.DOTALL)
    module = module.replace("some/classifier", "classifier").replace('"kind"', '"LABEL_1"')
    make(tmp_path / "classifier", 2)
    (tmp_path / "kindness.py").write_text(f"{module}open('loaded', 'a').write('once ')\n")
    groups = [with_fields(make_trajectory(name, [0.0] * 4).trajectory, code=TEXTS) for name in ("one", "other")]
    term = UserTerm(name="kind", term="kindness:kind", weight=1.0)
    columns = user_term_column(tmp_path, term, groups, 8, 0.2, seconds=10)
    judge = Judge(str(tmp_path / "classifier"), "LABEL_1", cap=0.7)
    assert [value.value for value in columns[0]] == pytest.approx([judge(PROBLEM, text, []) for text in TEXTS])
    assert columns[0] == columns[1]
    assert (tmp_path / "loaded").read_text() == "once "
