"""Fixtures: tiny policies, samples and trajectories. torch is imported only where it is used."""

import copy
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tasks.programs.code_blocks import code_of
from tasks.records.problems import Problem, Split
from tasks.records.programs import Result
from tasks.trajectories import RewardedTrajectory
from tests.support.groups import make_group, with_rewards

if TYPE_CHECKING:
    from tasks.model.policy import Policy
    from tasks.model.sample import Sample

VOCABULARY = 300
CORPUS = ["def solve(problem): 1 + 2"]
SHARED: dict[str, Any] = {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
SHARED["initializer_range"] = 0.2  # with the usual 0.02 no token of so narrow a model can become likely
WIDE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 256,
}


def tiny_model(kind: str) -> Any:
    """A random qwen2 (tied embeddings, grouped queries), llama or gpt2 of two layers."""
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(**SHARED, n_embd=32, n_layer=2, n_head=4, n_positions=256))
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**SHARED, **WIDE, num_key_value_heads=4))
    return Qwen2ForCausalLM(Qwen2Config(**SHARED, **WIDE, num_key_value_heads=2, tie_word_embeddings=True))


@cache
def tiny_tokenizer() -> Any:
    """The tokenizer of the tiny policies."""
    from tasks.bootstrap.tokenizer import train_tokenizer

    return train_tokenizer(CORPUS, VOCABULARY)


MakePolicy = Callable[..., "Policy"]
MakeTrajectory = Callable[..., RewardedTrajectory]
MakeSamples = Callable[..., "list[Sample]"]


def tiny_policy(
    kind: str = "qwen2", dtype: str = "float32", seed: int = 0, fresh: bool = False, full: bool = False
) -> "Policy":
    """fresh: the adapter's B is 0; full: full fine-tuning, without an adapter."""
    import torch

    from tasks.model.checkpoints.lora import attach_adapter
    from tasks.model.policy import Policy

    torch.set_num_threads(1)  # tiny matrices are slower on two
    type = getattr(torch, dtype)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = tiny_model(kind).to(type).eval()
        if not full:
            model = attach_adapter(model, rank=4, alpha=8.0, seed=seed).to(type)
        if not fresh:
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if "lora_B" in name:
                        parameter.normal_(0, 0.05)
    return Policy(model, copy.deepcopy(tiny_tokenizer()), "tiny", "scratch")


@pytest.fixture
def make_policy() -> MakePolicy:
    """`tiny_policy`."""
    import torch

    torch.set_num_threads(1)
    return tiny_policy


@pytest.fixture
def save_tiny(make_policy: MakePolicy) -> Callable[..., None]:
    """save_tiny(folder, round=0, **as make_policy) writes a policy folder of make_trajectory's version."""
    from tasks.artifacts import read_json, write_json
    from tasks.model.policy import save_policy
    from tasks.records.policy import Lineage

    def save(folder: Path, round: int = 0, **kind: Any) -> None:
        save_policy(make_policy(**kind), folder, parent=None, round=round)
        lineage = read_json(folder / "lineage.json", Lineage)
        write_json(folder / "lineage.json", lineage.model_copy(update={"version": "tiny"}))

    return save


@pytest.fixture
def make_samples() -> MakeSamples:
    """make_samples(problems=4, group=3, seed=0): groups of random tokens, of unlike lengths, with random advantages."""
    from tasks.model.sample import Sample

    def make(problems: int = 4, group: int = 3, seed: int = 0) -> list[Sample]:
        rng = random.Random(seed)

        def tokens(low: int, high: int) -> tuple[int, ...]:
            return tuple(rng.randrange(2, VOCABULARY) for _ in range(rng.randint(low, high)))

        prompts = [tokens(3, 12) for _ in range(problems)]
        return [
            Sample(f"p{number}", member, prompt, tokens(1, 9), (), rng.gauss(0, 1))
            for number, prompt in enumerate(prompts)
            for member in range(group)
        ]

    return make


@pytest.fixture
def make_trajectory() -> MakeTrajectory:
    """make_trajectory("p0", [1.0, 0.0], split="train"): a group of workflows with these rewards, None = failed.

    With `tokens`, of make_policy's tokenizer, they are what the policy wrote, with probabilities that are not recorded.
    """

    def make(
        problem_id: str, rewards: list[float | None], split: Split = "train", tokens: list[list[int]] | None = None
    ) -> RewardedTrajectory:
        codes = [f"solve {problem_id} {member}" for member in range(len(rewards))]
        if tokens:
            codes = [code_of(tiny_tokenizer().decode(own, skip_special_tokens=True)) for own in tokens]
        prompt = f"{problem_id}?\n"
        group = make_group(
            codes,
            [Result(status="ok", value=1)] * len(rewards),
            split=split,
            problem=Problem(problem_id=problem_id, question=f"{problem_id}?", answer=1, source="test"),
            prompt=prompt,
            prompt_tokens=tiny_tokenizer()(prompt, add_special_tokens=False)["input_ids"],
            workflow_id=[f"{problem_id}-{member}" for member in range(len(rewards))],
            tokens=tokens or [[] for _ in rewards],
            logprobs=[[] for _ in rewards],
            policy_version="tiny",
        )
        return with_rewards(group, rewards)

    return make


@pytest.fixture(scope="session")
def make_solver() -> Callable[[Path, str], str]:
    """make_solver(folder, code) writes a policy folder; its policy answers every question with `code`.

    Returns the policy's version.
    """
    from tasks.model.policy import Policy, save_policy
    from tests.support.writers import train_writer

    @cache
    def solver(code: str) -> Policy:
        return train_writer([code], ["3 boxes of 4 pens?", "Ann has 12 and gives 5 away.", "7?"], [code])

    return lambda folder, code: save_policy(solver(code), folder, parent=None, round=0).version


@pytest.fixture
def policy(make_policy: MakePolicy) -> "Policy":
    """make_policy()."""
    return make_policy()


@pytest.fixture
def samples(make_samples: MakeSamples) -> "list[Sample]":
    """make_samples()."""
    return make_samples()
