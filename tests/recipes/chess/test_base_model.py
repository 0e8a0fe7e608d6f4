"""A base in the form of the published RookWorld models: GPT-2, a tokenizer without a chat template, `<|endoftext|>`."""

from pathlib import Path

import pytest

from recipes.chess.environment import RookWorld
from tasks.artifacts import write_jsonl
from tasks.bootstrap.task import run
from tasks.environments.prompts import prompt_of
from tasks.errors import GraftError
from tasks.layout import Layout
from tasks.model.policy import encode_prompt, load_policy
from tasks.model.sampling.sampler import Request, sample
from tasks.params.file import override
from tasks.records import Problem, Split
from tests.support.models import save_base
from tests.support.policies import MakePolicy
from tests.support.stage_params import REPOSITORY, SHIPPED, stage_params


def test_it_is_asked_the_question_alone(
    tmp_path: Path, make_policy: MakePolicy, problems: dict[Split, list[Problem]]
) -> None:
    base = save_base(make_policy, tmp_path / "base", "gpt2")
    layout = Layout(tmp_path)
    write_jsonl(layout.problems("train"), problems["train"])
    write_jsonl(layout.coldstart / "index.jsonl", [])
    prompt = SHIPPED.policy.prompt.model_copy(update={"style": "raw", "examples": 0})
    policy = {"base": str(base), "prompt": prompt, "lora": None}
    run(
        layout,
        stage_params(
            "bootstrap", environment="recipes.chess:RookWorld", problems={"source": "environment"}, policy=policy
        ),
        None,
    )
    made = load_policy(layout.policy(0))
    assert made.tokenizer.chat_template is None
    assert made.tokenizer.eos_token == "<|endoftext|>"
    environment = RookWorld()
    for problem in problems["train"]:
        assert prompt_of(environment, made.prompt_format, problem, made.base) == problem.question
    asked = [Request(encode_prompt(made, problem.question), 0) for problem in problems["train"][:2]]
    assert len(sample(made, asked, 0.0, 8, "test")) == 2


def test_a_raw_prompt_has_no_examples(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text((REPOSITORY / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(GraftError, match="4 worked examples, but style raw shows none: set examples to 0"):
        override(path, ["policy.prompt.style=raw"])
    override(path, ["policy.prompt.style=raw", "policy.prompt.examples=0"])
