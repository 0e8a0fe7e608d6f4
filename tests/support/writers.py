"""Tiny policies that write the workflows that they were trained on."""

from collections.abc import Iterable, Sequence

from tasks.bootstrap.scratch_model import build_scratch_model
from tasks.bootstrap.supervised import TrainingExample, train_supervised
from tasks.bootstrap.tokenizer import train_tokenizer
from tasks.model.checkpoints.lora import attach_adapter
from tasks.model.policy import Policy
from tasks.model.text import encode_completion, encode_prompt
from tasks.programs.contract import prompt_of


def train_writer(
    corpus: Sequence[str],
    questions: Iterable[str],
    codes: Sequence[str],
    epochs: int = 60,
    rate: float = 0.02,
    batch: int = 3,
    layers: int = 1,
) -> Policy:
    """A policy that answers each of the questions with one of the codes; `corpus` is what its tokenizer learns from."""
    tokenizer = train_tokenizer(corpus, 300)
    policy = Policy(build_scratch_model(tokenizer, hidden=32, layers=layers, seed=0), tokenizer, "", "scratch")
    prompts = [encode_prompt(policy, prompt_of(question, "scratch")) for question in questions]
    rows = [TrainingExample(prompt, encode_completion(policy, code)) for prompt in prompts for code in codes]
    pad = tokenizer.pad_token_id
    train_supervised(policy.model, rows, epochs=epochs, learning_rate=rate, batch=batch, pad=pad, seed=0)
    policy.model = attach_adapter(policy.model, rank=2, alpha=2.0, seed=0)
    return policy
