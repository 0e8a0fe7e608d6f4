"""The policies and requests of the engine benchmark: two adapters on SmolLM2-135M, eight prompts, eight completions of
each."""

from pathlib import Path

from benchmarks.support.small_model import BASE
from tasks.artifacts import digest_path
from tasks.model.gguf import find_gguf
from tasks.model.policy import (
    Policy,
    attach_adapter,
    chat_prompt,
    encode_prompt,
    load_model,
    load_tokenizer,
    save_policy,
)
from tasks.model.sample import Sample
from tasks.model.sampling.batch_state import Request
from tasks.records import Completion
from tasks.seeds import derive_seed

MODEL = BASE[0].partition("=")[2]
RANK, ALPHA = 16, 32.0
SIZE = 0.01
"""Standard deviation of the factors B, which are 0 in a new adapter: as after a few updates."""

PROBLEMS, COMPLETIONS = 8, 8
TEMPERATURE = 0.8
QUESTIONS = (
    "Ann has {} pens and buys {} boxes of {} more. How many pens has she then? Explain in a few steps.",
    "A train of {} wagons loses {} of them; each of the others has {} seats. How many seats are left? Show the way.",
)


def save_policies(folders: list[Path]) -> None:
    """A policy in each folder: the same base, adapters of unlike random factors."""
    import torch

    model, tokenizer = load_model(MODEL), load_tokenizer(MODEL)
    policy = Policy(model, tokenizer, "", MODEL, digest_path(find_gguf(MODEL)))
    policy.model = attach_adapter(model, RANK, ALPHA, seed=0)
    for number, folder in enumerate(folders):
        generator = torch.Generator().manual_seed(number)
        with torch.no_grad():
            for name, weight in policy.model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0, SIZE, generator=generator)
        save_policy(policy, folder, parent=None, round=number)


def make_requests(policy: Policy) -> list[Request]:
    """PROBLEMS × COMPLETIONS rows, each with its own seed."""
    texts = [QUESTIONS[n % 2].format(17 + n, 3 + n % 4, 5 + n) for n in range(PROBLEMS)]
    prompts = [encode_prompt(policy, chat_prompt(policy, text)) for text in texts]
    rows = [(n, row) for n in range(PROBLEMS) for row in range(COMPLETIONS)]
    return [Request(prompts[n], derive_seed("benchmark", n, row)) for n, row in rows]


def make_samples(requests: list[Request], completions: list[Completion]) -> list[Sample]:
    """The completions as an update reads them."""
    return [
        Sample(f"p{n // COMPLETIONS}", n % COMPLETIONS, tuple(r.prompt), tuple(c.tokens), tuple(c.logprobs), 0.0)
        for n, (r, c) in enumerate(zip(requests, completions, strict=True))
    ]
